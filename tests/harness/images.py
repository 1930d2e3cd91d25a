"""Images with real Flower releases, laid out as the official ones, from Debian and PyPI."""

import os
import shutil
import tempfile
from pathlib import Path

from flower_operator.flower.commands import ENVOY_IMAGE, ENVOY_VERSION
from flower_operator.local.envoy import envoy_binary
from flower_operator.runs.environments import cache_folder
from scripts.archive import Image, make_environment, unpacked, write_archive, write_layer
from scripts.image import base

PAUSE = "local/pause:1"

_HOME = "/app"
_USER = 49999
_ENVOY = "/usr/local/bin/envoy"
_ENVIRONMENT = "/python/venv"
_COMPONENTS = ("superlink", "supernode", "superexec")
# What SuperExec needs to run tasks in pods of their own.
_PACKAGES = ("kubernetes==34.1.0",)


def pause_archive() -> Path:
    """The process that holds a pod's namespaces: it only has to wait."""
    archive = cache_folder() / "images" / "pause.tar"
    if not archive.exists():
        config = {"Entrypoint": ["sleep", "infinity"], "User": "65535:65535", "Env": ["PATH=/bin"]}
        write_archive([Image(PAUSE, [base()], config)], archive)
    return archive


def flower_archive(release: str) -> Path:
    """flwr/superlink, flwr/supernode and flwr/superexec of a release, made once a machine."""
    name = "-".join(["flwr", release, *_PACKAGES]).replace("==", "-")
    archive = cache_folder() / "images" / f"{name}.tar"
    if not archive.exists():
        _make(release, archive)
    return archive


def gateway_archive() -> Path:
    """Envoy by the name that Federations know it by, made once a machine."""
    archive = cache_folder() / "images" / f"envoy-{ENVOY_VERSION}.tar"
    if not archive.exists():
        with unpacked(base()) as root, tempfile.TemporaryDirectory(prefix="image-") as folder:
            shutil.copy(envoy_binary(), root / _ENVOY.lstrip("/"))
            layer = Path(folder, "layer.tar")
            write_layer(root, [_ENVOY], layer)
            config = {"Entrypoint": [_ENVOY], "User": "65532:65532", "Env": ["PATH=/usr/local/bin"]}
            write_archive([Image(ENVOY_IMAGE, [base(), layer], config)], archive)
    return archive


def _make(release: str, archive: Path) -> None:
    with unpacked(base()) as root, tempfile.TemporaryDirectory(prefix="image-") as folder:
        with (root / "etc/passwd").open("a") as users:
            users.write(f"app:x:{_USER}:{_USER}::{_HOME}:/bin/sh\n")
        home = root / _HOME.lstrip("/")
        home.mkdir()
        os.chown(home, _USER, _USER)
        make_environment(root, _ENVIRONMENT, [f"flwr=={release}", *_PACKAGES])
        layer = Path(folder, "layer.tar")
        write_layer(root, ["/etc/passwd", _HOME, _ENVIRONMENT], layer)
        images = [
            Image(f"flwr/{component}:{release}", [base(), layer], _config(component))
            for component in _COMPONENTS
        ]
        write_archive(images, archive)


def _config(component: str) -> dict[str, object]:
    return {
        "Entrypoint": [f"flower-{component}"],
        "User": "app",
        "WorkingDir": _HOME,
        "Env": [
            f"PATH={_ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin",
            f"HOME={_HOME}",
            "LANG=C.UTF-8",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONUNBUFFERED=1",
        ],
    }
