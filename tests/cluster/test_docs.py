"""Every command in the documentation, run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.manifests import EXAMPLES, ROOT
from tests.harness.binaries import binary
from tests.harness.control_plane import ControlPlane

pytestmark = pytest.mark.extended

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# The tests run under make already: of its targets it is checked that they are there.
PRELUDE = """
set -euo pipefail
trap 'flower-operator down --all > /dev/null' EXIT
make() { grep -q "^$1:" "$ROOT/Makefile"; }
"""


def commands(page: Path) -> str:
    return "\n".join(BLOCK.findall(page.read_text()))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if commands(page)],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_commands_of_a_page_work(
    page: Path, control_plane: ControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    tools = [Path(sys.executable).parent, binary("kubectl").parent]
    environment = os.environ | {
        "ROOT": str(ROOT),
        "PATH": os.pathsep.join([*map(str, tools), os.environ["PATH"]]),
        "KUBECONFIG": str(control_plane.kubeconfig),
        "KUBECACHEDIR": str(tmp_path / "kube-cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    done = subprocess.run(
        ["bash", "-c", PRELUDE + commands(page)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*PAGES, ROOT / "CONTRIBUTING.md", *(ROOT / "design").glob("*.md")]
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken
