"""The operator's image in a file, without a container tool.

python -m scripts.image NAME FILE
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from flower_operator.runs.environments import cache_folder

from .archive import (
    PACKAGES,
    SUITE,
    Image,
    ImageUnavailable,
    make_base,
    make_environment,
    unpacked,
    write_archive,
    write_layer,
)

ROOT = Path(__file__).parents[1]
ENVIRONMENT = "/opt/flower-operator"
# The same as in the Dockerfile.
CONFIG = {
    "Entrypoint": ["flower-operator"],
    "Cmd": ["controller"],
    "User": "65532:65532",
    "Env": [
        f"PATH={ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
    ],
}


def base() -> Path:
    """The lowest layer of every image, made once a machine."""
    layer = cache_folder() / "images" / f"{'-'.join([SUITE, *PACKAGES])}.tar"
    if not layer.exists():
        make_base(layer)
    return layer


def make_image(name: str, target: Path) -> int:
    """Write the image to a file; returns the size of what lies above its base."""
    lower = base()
    target.parent.mkdir(parents=True, exist_ok=True)
    with unpacked(lower) as root, tempfile.TemporaryDirectory(prefix="image-") as folder:
        wheel = _build_wheel(folder)
        left_out = Path(folder, "left-out.txt")
        # It installs Flower releases for `flower-operator up`, which has no place in a cluster,
        # and is larger than all the rest.
        left_out.write_text("uv")
        requirements = str(ROOT / "requirements/runtime.txt")
        make_environment(
            root,
            ENVIRONMENT,
            ["--require-hashes", "--excludes", str(left_out), "--requirements", requirements],
            ["--no-deps", str(wheel)],
        )
        layer = Path(folder, "layer.tar")
        write_layer(root, [ENVIRONMENT], layer)
        write_archive([Image(name, [lower, layer], CONFIG)], target)
        return layer.stat().st_size


def _build_wheel(folder: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target=wheel", "--directory", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = Path(folder).glob("*.whl")
    return wheel


def main() -> None:
    name, target = sys.argv[1:]
    try:
        size = make_image(name, Path(target))
    except ImageUnavailable as error:
        sys.exit(f"error: {error}")
    print(f"{target}: {name}, {size / 2**20:.0f} MiB above {SUITE} with Python")


if __name__ == "__main__":
    main()
