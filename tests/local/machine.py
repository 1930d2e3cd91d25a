"""The flower-operator command on a state folder of a test's own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import yaml

from flower_operator.local.state import Record
from tests.harness.waiting import wait_for

REPORT_APP = Path(__file__).parent / "apps" / "report"
RESULT = re.compile(r"RESULT (\{.*\})")

Document = dict[str, Any]


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "XDG_STATE_HOME": str(folder / "state"),
            "KUBECONFIG": str(folder / "no-kubeconfig"),
        }

    def run(
        self, *arguments: str | Path, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments),
            input=stdin if stdin is not None else "",
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr + self.logs()
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def command(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "flower_operator", *map(str, arguments)]

    def write(self, document: Document) -> Path:
        path = self.folder / f"{document['metadata']['name']}.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def up(self, document: Document, *options: str) -> subprocess.CompletedProcess[str]:
        return self.run("up", "-d", "--timeout", "240", *options, self.write(document))

    def record(self, name: str) -> Record:
        return Record(self.folder / "state" / "flower-operator" / name)

    def result_of(self, name: str, *options: str) -> Document:
        """What the report app printed when run on this Federation."""
        done = self.run("run", REPORT_APP, "--federation", name, *options)
        match = RESULT.search(done.stdout)
        assert match, done.stdout + done.stderr + self.logs()
        result: Document = json.loads(match[1])
        return result

    def logs(self) -> str:
        """The end of every log, for the message of a failed test."""
        files = sorted((self.folder / "state").rglob("*.log"))
        return "".join(f"\n--- {f.name}\n{f.read_text(errors='replace')[-1500:]}" for f in files)

    def processes(self) -> list[int]:
        """The processes of this machine that belong to its Federations."""
        done = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True)
        own = [line.split(None, 1) for line in done.stdout.splitlines()[1:]]
        mark = str(self.folder)
        return [int(pid) for pid, args in own if mark in args or self._started_here(int(pid))]

    def _started_here(self, pid: int) -> bool:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return f"XDG_STATE_HOME={self.folder}/".encode() in environment

    def wait_until_empty(self, timeout: float = 10) -> None:
        """A process that has let go of its lock may still be on its way out."""
        wait_for(lambda: not self.processes(), lambda: f"left behind: {self.processes()}", timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """None is left behind."""
        self.run("down", "--all", check=False)
        self.wait_until_empty(timeout=30)


def federation(name: str, release: str, isolation: str, **superlink: Any) -> Document:
    """Two pools of one SuperNode each, with values that are hard to carry."""
    superexec = f"flwr/superexec:{release}"
    process = isolation == "process"
    pool: Document = {
        "replicas": 1,
        "images": {"superexecClientApp": superexec} if process else {},
        "nodeConfig": {
            "partition-id": "{partition}",
            "num-partitions": "{partitions}",
            "name": "{pool}_{index}",
            "rate": "0.5",
            "shuffle": "true",
            "zip": "007",
            "note": '$(touch x) "quoted" \\ it\'s',
        },
    }
    return {
        "apiVersion": "flwr.exalsius.ai/v1",
        "kind": "Federation",
        "metadata": {"name": name},
        "spec": {
            "mode": "StatefulSet",
            "isolationMode": isolation,
            "superlink": {
                "image": f"flwr/superlink:{release}",
                **({"superexecImage": superexec} if process else {}),
                **superlink,
            },
            "supernodes": {
                "image": f"flwr/supernode:{release}",
                "pools": [{"name": "north", **pool}, {"name": "south", **pool}],
            },
        },
    }


def secure_federation(name: str, release: str, isolation: str, **superlink: Any) -> Document:
    document = federation(name, release, isolation, **superlink)
    document["spec"]["insecure"] = False
    return document


def keyed_federation(name: str, release: str, isolation: str, **superlink: Any) -> Document:
    """A secure one whose SuperNodes have keys."""
    document = secure_federation(name, release, isolation, **superlink)
    document["spec"]["supernodeAuth"] = {"enabled": True, "allowSubprocess": True}
    return document


def expected_reports() -> list[Document]:
    """What the ClientApps of such a Federation must see."""
    common = {
        "num-partitions": 2,
        "rate": 0.5,
        "shuffle": True,
        "zip": "007",
        "note": '$(touch x) "quoted" \\ it\'s',
    }
    return [
        {"partition-id": 0, "name": "north_0", **common},
        {"partition-id": 1, "name": "south_0", **common},
    ]
