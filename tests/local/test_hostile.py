"""`up` of manifests whose author means harm, as a user without rights.

A small program stands in for Flower and listens where a SuperNode would: what counts is which
files `up` and its supervisor write. Where the tests run as root, the commands run as a user who may
read everything and write nothing but one folder.
"""

import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from flower_operator.api.manifest import parse
from flower_operator.render import Facts, render
from flower_operator.trust.certificates import with_new_authority
from flower_operator.trust.layout import Stored
from tests.harness.releases import extended_unless
from tests.local.machine import Document, Machine, keyed_federation

UNPRIVILEGED = 54321
FLOWER = f"""\
#!{sys.executable}
import pathlib, signal, socket, sys
pathlib.Path("written").touch()
address = sys.argv[sys.argv.index("--health-server-address") + 1]
host, _, port = address.rpartition(":")
with socket.create_server((host, int(port))):
    signal.pause()
"""


class Laptop(Machine):
    """A user's machine: a home with a file in it, a state folder, an environment with `Flower`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.home, self.flower = folder / "home", folder / "flower"
        self.environment |= {"HOME": str(self.home), "TMPDIR": str(folder / "tmp")}
        for name in ("home", "tmp", "state", "flower/bin"):
            (folder / name).mkdir(parents=True)
        (self.home / ".bashrc").write_text("precious\n")
        self._install("python", "#!/bin/sh\necho 1.41.0\n")
        self._install("flower-supernode", FLOWER)
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, UNPRIVILEGED, UNPRIVILEGED)

    def _install(self, name: str, text: str) -> None:
        path = self.flower / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def command(self, *arguments: str | Path) -> list[str]:
        # The umask leaves the modes of files to those who make them.
        plain = ["sh", "-c", 'umask 0; exec "$@"', "sh", *super().command(*arguments)]
        return [*without_rights(), *plain] if os.geteuid() == 0 else plain

    def attack(self, *documents: Document) -> subprocess.CompletedProcess[str]:
        text = yaml.safe_dump_all(documents)
        options = ["-d", "--env", str(self.flower), "--timeout", "60"]
        return self.run("up", *options, "-", stdin=text, check=False)

    @property
    def state(self) -> Path:
        return self.folder / "state" / "flower-operator"

    def everything_else(self) -> dict[str, str]:
        """What is outside the state folder; of files what is in them."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            if (
                not path.is_relative_to(self.state)
                and path != self.folder / "tmp/flower-operator-ports"
            ):
                found[str(path)] = path.read_text() if path.is_file() else "folder"
        return found


def without_rights() -> list[str]:
    ids = [f"--reuid={UNPRIVILEGED}", f"--regid={UNPRIVILEGED}", "--clear-groups"]
    # Python and this package may lie where only root finds them.
    reads = [f"--{kind}-caps=-all,+dac_read_search" for kind in ("inh", "ambient", "bounding")]
    reads[-1] = "--bounding-set=-all,+dac_read_search"
    return ["setpriv", *ids, *reads, "--no-new-privs"]


@pytest.fixture
def laptop() -> Iterator[Laptop]:
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("setpriv is needed to run without root's rights")
    with tempfile.TemporaryDirectory() as folder, Laptop(Path(folder)) as laptop:
        yield laptop


@pytest.fixture
def address() -> Iterator[str]:
    """Where a SuperLink answers that is not of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def joining(address: str, **pool: object) -> Document:
    """What someone else's `join` prints: SuperNodes for a SuperLink of theirs."""
    document = keyed_federation("fed", "1.41.0", "subprocess")
    document["spec"] |= {
        "insecure": True,
        "supernodeAuth": {"enabled": False},
        "superlink": {"external": {"address": address}},
    }
    pools = document["spec"]["supernodes"]["pools"]
    pools[1] |= pool
    return document


def keys(name: str) -> Document:
    """The Secret of a join manifest, with a file of this name."""
    data = {name: base64.b64encode(b"owned\n").decode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "fed-supernode-north-keys"},
        "data": data,
    }


def test_a_manifest_that_means_well_comes_up_and_all_it_writes_is_its_owners(
    laptop: Laptop, address: str
) -> None:
    before = laptop.everything_else()
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    mount = {"name": "data", "mountPath": "/data", "subPath": "a/b"}
    document = joining(address, volumes=[volume], volumeMounts=[mount])
    done = laptop.attack(document)
    assert done.returncode == 0, done.stderr + laptop.logs()
    assert laptop.everything_else() == before
    assert (laptop.state / "fed/claims/data/a/b").is_dir()
    assert (laptop.state / "fed/work/south-0/written").exists()
    modes = {path: path.stat().st_mode for path in (laptop.state, *laptop.state.rglob("*"))}
    assert {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def mounted(volume: Document, **mount: str) -> Document:
    mounts = [{"name": volume["name"], "mountPath": "/data", **mount}]
    return {"volumes": [volume], "volumeMounts": mounts}


def up_to(folder: Path, *steps: str) -> str:
    """Leads to a folder from however deep below the state folder."""
    return "/".join([*[".."] * 20, *folder.parts[1:], *steps])


# From `volumes/POD` of a Federation; a name has 63 characters at most.
NAME = "../../../../../home/made"

ATTACKS: dict[str, tuple[Callable[[Laptop], Document], str]] = {
    "the name of a claim": (
        lambda laptop: mounted(
            {
                "name": "data",
                "persistentVolumeClaim": {"claimName": up_to(laptop.home, "made")},
            }
        ),
        "volumes[0].persistentVolumeClaim.claimName: must be a DNS name",
    ),
    "the name of a volume": (
        lambda _: mounted({"name": NAME, "emptyDir": {}}),
        "volumes[0].name: must be a DNS label",
    ),
    "the name of a claim of a pod's own": (
        lambda _: {
            "volumeClaimTemplates": [{"metadata": {"name": NAME}, "spec": {}}],
            "volumeMounts": [{"name": NAME, "mountPath": "/data"}],
        },
        "volumeClaimTemplates[0].metadata.name: must be a DNS name",
    ),
    "a folder of a volume": (
        lambda laptop: mounted(
            {"name": "data", "emptyDir": {}}, subPath=up_to(laptop.home, "made")
        ),
        "volumeMounts[0].subPath: must be a relative path without '..'",
    ),
    "an absolute folder of a volume": (
        lambda laptop: mounted({"name": "data", "emptyDir": {}}, subPath=f"{laptop.home}/made"),
        "volumeMounts[0].subPath: must be a relative path without '..'",
    ),
    "a folder of a volume that a variable names": (
        lambda laptop: {
            **mounted({"name": "data", "emptyDir": {}}, subPathExpr="$(WHERE)"),
            "env": [{"name": "WHERE", "value": up_to(laptop.home, "made")}],
        },
        "error: south-0/supernode: '../",
    ),
    "a volume in a pod template": (
        lambda _: {
            "podTemplate": {
                "spec": {
                    "volumes": [{"name": NAME, "emptyDir": {}}],
                    "containers": [
                        {
                            "name": "supernode",
                            "volumeMounts": [{"name": NAME, "mountPath": "/data"}],
                        }
                    ],
                }
            }
        },
        "podTemplate.spec.volumes[0].name: must be a DNS label",
    ),
    "two sources of a volume": (
        lambda laptop: mounted(
            {
                "name": "data",
                "hostPath": {"path": str(laptop.home)},
                "configMap": {"name": node_config_map()},
            }
        ),
        "volumes[0]: has several sources: configMap, hostPath; keep one",
    ),
    "a folder of the host that is not there": (
        lambda laptop: mounted({"name": "data", "hostPath": {"path": f"{laptop.home}/made"}}),
        "made does not exist on this machine",
    ),
    "what Python runs before anything else": (
        lambda laptop: {
            "env": [
                {"name": "PYTHONWARNINGS", "value": "all:0:antigravity.x:0:0"},
                {"name": "BROWSER", "value": f"touch {laptop.home}/made %s"},
            ]
        },
        "env[0]: PYTHONWARNINGS",
    ),
}


def node_config_map() -> str:
    """The ConfigMap of the second pool, whose files `up` writes."""
    plan = render(parse(joining("127.0.0.1:9")), Facts())
    (name,) = (each["metadata"]["name"] for each in plan.objects if each["kind"] == "ConfigMap")
    return str(name)


@pytest.mark.parametrize(
    "attack", extended_unless(["the name of a claim", "two sources of a volume"], ATTACKS)
)
def test_a_pool_writes_nowhere_else(laptop: Laptop, address: str, attack: str) -> None:
    pool, words = ATTACKS[attack]
    document = joining(address, **pool(laptop))
    before = laptop.everything_else()
    done = laptop.attack(document)
    assert laptop.everything_else() == before, done.stderr
    assert done.returncode == 1
    assert words in done.stderr
    assert laptop.processes() == []


@pytest.mark.parametrize("deep", extended_unless([5], [3, 4, 5]))
def test_the_keys_of_a_join_manifest_become_no_paths(
    laptop: Laptop, address: str, deep: int
) -> None:
    name = "/.." * deep + "/home/.bashrc"
    document = joining(address)
    document["spec"]["supernodeAuth"] = {"enabled": True, "allowSubprocess": True}
    document["spec"]["insecure"] = False
    authority = with_new_authority(Stored(), "fed", "team", datetime.now(UTC))["ca.crt"]
    document["spec"]["superlink"]["external"]["ca"] = authority
    before = laptop.everything_else()
    done = laptop.attack(keys(name), document)
    assert laptop.everything_else() == before, done.stderr
    assert done.returncode == 1
    assert (
        f"error: Secret fed-supernode-north-keys: data: {name!r} is no name of a file"
        in done.stderr
    )


def test_a_link_that_an_app_has_left_is_not_followed(laptop: Laptop, address: str) -> None:
    document = joining(
        address, **mounted({"name": "data", "configMap": {"name": node_config_map()}})
    )
    assert laptop.attack(document).returncode == 0
    laptop.run("down", "fed")
    data = laptop.state / "fed/volumes/south-0/data"
    shutil.rmtree(data)
    data.symlink_to(laptop.home)
    before = laptop.everything_else()
    done = laptop.attack(document)
    assert laptop.everything_else() == before, done.stderr
    assert done.returncode == 1
    assert "leads out of" in done.stderr


@pytest.mark.extended
@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ({"name": "LD_AUDIT_=/x.so:", "value": "y"}, "LD_AUDIT_=/x.so: can make a process run"),
        ({"name": "A=B", "value": "y"}, "illegal environment variable name"),
        ({"name": "A", "value": "y\0"}, "embedded null byte"),
    ],
)
def test_a_variable_that_no_process_can_have_is_told_of(
    laptop: Laptop, address: str, variable: Document, words: str
) -> None:
    done = laptop.attack(joining(address, env=[variable]))
    assert done.returncode == 1
    assert words in done.stderr
