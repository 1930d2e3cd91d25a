"""Container images in a file, made without a daemon, a registry or a base image.

Debian's packages are the lowest layer, PyPI's the next. The file goes into a container runtime
with `docker load`, `podman load` or `ctr images import`.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

SUITE = "bookworm"
PYTHON = "3.11"
PACKAGES = ("ca-certificates", "libstdc++6", "python3")
# What no container reads.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")

# The names that Debian, container runtimes and uv each have for the same machine.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class ImageUnavailable(RuntimeError):
    """An image cannot be made here, and why."""


@dataclass(frozen=True)
class Image:
    name: str
    layers: Sequence[Path]
    """Tar files, the lowest first."""
    config: Mapping[str, Any]
    """Entrypoint, Env, User and so on."""


def make_base(target: Path) -> None:
    """A layer with Debian and its Python. The packages come from where this machine has its own."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        raise ImageUnavailable("an image is put together by root on Linux; or use a container tool")
    if not shutil.which("mmdebstrap"):
        raise ImageUnavailable("mmdebstrap is missing: apt-get install mmdebstrap")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial.tar")
    exclusions = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    # No apt in it: what is not in a layer cannot be added in a container.
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=essential", *exclusions]
    command += [f"--include={','.join(PACKAGES)}", SUITE, str(partial)]
    _run(command, "the base of the image cannot be made")
    partial.replace(target)


@contextmanager
def unpacked(base: Path) -> Iterator[Path]:
    """The file system that a layer is put on top of."""
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        _run(["tar", "--extract", "--file", str(base), "--directory", folder], "no base")
        yield Path(folder)


def make_environment(root: Path, path: str, *installs: Sequence[str]) -> None:
    """A virtual environment at `path`, with what `uv pip install` is each time told to put into it.

    This machine's Python may be another one than the image's.
    """
    environment = root / path.lstrip("/")
    packages = environment / f"lib/python{PYTHON}/site-packages"
    packages.mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false")
    system = f"{platform.machine()}-manylinux_2_36"
    options = ["--quiet", "--link-mode=copy", "--only-binary=:all:", "--python-version", PYTHON]
    options += ["--python-platform", system, "--target", str(packages)]
    for arguments in installs:
        command = [sys.executable, "-m", "uv", "pip", "install", *options, *arguments]
        _run(command, "the packages cannot be installed")
    (packages / "bin").rename(environment / "bin")
    for script in (environment / "bin").iterdir():
        _set_interpreter(script, f"{path}/bin/python")
    (environment / "bin/python").symlink_to("/usr/bin/python3")
    # By the hash of the source, unchecked: so the files' times need not be kept.
    compiling = ["python3", "-m", "compileall", "-q", "-j0", "--invalidation-mode=unchecked-hash"]
    _run(["chroot", str(root), *compiling, path], "the packages cannot be compiled")


def write_layer(root: Path, paths: Iterable[str], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as layer:
        for path in paths:
            layer.add(root / path.lstrip("/"), path.lstrip("/"), filter=_timeless)


def write_archive(images: Sequence[Image], target: Path) -> None:
    """Images of shared layers, each of which is in the file once."""
    digests = {layer: _digest(layer) for image in images for layer in image.layers}
    index = []
    partial = target.with_suffix(".partial.tar")
    with tarfile.open(partial, "w", format=tarfile.GNU_FORMAT) as archive:
        for layer, digest in digests.items():
            archive.add(layer, f"{digest}/layer.tar", filter=_timeless)
        for image in images:
            config = _image_config(image, [digests[layer] for layer in image.layers])
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add_file(archive, name, config)
            layers = [f"{digests[layer]}/layer.tar" for layer in image.layers]
            index.append({"Config": name, "RepoTags": [image.name], "Layers": layers})
        _add_file(archive, "manifest.json", json.dumps(index).encode())
    partial.replace(target)


def _image_config(image: Image, digests: Sequence[str]) -> bytes:
    content = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": image.config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{each}" for each in digests]},
    }
    return json.dumps(content).encode()


def _set_interpreter(script: Path, python: str) -> None:
    """The first line of a script names the Python of the machine that installed it."""
    content = script.read_bytes()
    if content.startswith(b"#!") and b"python" in content.splitlines()[0]:
        script.write_bytes(b"\n".join([f"#!{python}".encode(), *content.split(b"\n")[1:]]))


def _timeless(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same content makes the same layer, whenever it is built."""
    entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, BytesIO(content))


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _run(command: Sequence[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageUnavailable(f"{failure}: {done.stderr.strip()[-2000:]}")
