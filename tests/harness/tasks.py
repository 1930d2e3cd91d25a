"""What a release's own Kubernetes executor does with a config."""

import json
import subprocess
from pathlib import Path
from typing import Any

from flower_operator.flower.releases import Release
from flower_operator.runs.environments import environment

Call = dict[str, Any]

_LAUNCH = Path(__file__).with_name("launch_task.py")


def launch(
    release: Release, config: Path, address: str, task_type: str = "flwr-clientapp"
) -> list[Call]:
    """The calls that a task takes, from its start to the clearing away."""
    python = environment(release) / "bin" / "python"
    command = [str(python), str(_LAUNCH), str(config), address, task_type]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    calls: list[Call] = json.loads(done.stdout)
    return calls
