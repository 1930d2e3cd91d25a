"""The commands, as a user meets them."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from flower_operator import __version__
from flower_operator.api.crd import custom_resource_definition
from flower_operator.cli import main
from flower_operator.cli.plugin import plugin
from scripts.manifests import EXAMPLES, ROOT
from tests.unit.federations import document

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"}}


def run(*arguments: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(main, arguments, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_version() -> None:
    assert run("--version").output == f"flower-operator {__version__}\n"


def test_every_example_is_valid() -> None:
    result = run("validate", str(EXAMPLES))
    assert result.exit_code == 0
    assert result.stdout.count("is valid") == 16


def test_a_fault_is_told_with_file_document_and_field(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    documents = [document(), document(superlink={"imag": "x"})]
    path.write_text(yaml.safe_dump_all(documents))
    result = run("validate", str(path))
    assert result.exit_code == 1
    assert f"{path}, document 1: federation fed is valid" in result.stdout
    assert result.stderr.endswith(
        f"error: {path}, document 2: spec.superlink.imag: is not a field; did you mean image?\n"
    )


def test_objects_of_standard_input() -> None:
    result = run("render", "-", "-n", "team", stdin=yaml.safe_dump(document()))
    objects = list(yaml.safe_load_all(result.stdout))
    assert [each["kind"] for each in objects] == ["Service", "Deployment", "StatefulSet"]
    assert {each["metadata"]["namespace"] for each in objects} == {"team"}
    assert "&" not in result.stdout, "objects are written out, without YAML aliases"


def test_json_is_one_list() -> None:
    result = run("render", "-o", "json", "-", stdin=json.dumps(document()))
    answer = json.loads(result.stdout)
    assert (answer["kind"], len(answer["items"])) == ("List", 3)


def test_a_manifests_own_namespace_stays() -> None:
    manifest = document()
    manifest["metadata"]["namespace"] = "own"
    result = run("render", "-n", "team", "-", stdin=yaml.safe_dump(manifest))
    assert "namespace: own" in result.stdout
    assert "namespace: team" not in result.stdout


def test_other_objects_are_skipped_with_a_note_or_passed_through() -> None:
    text = yaml.safe_dump_all([SERVICE, document()])
    skipped = run("render", "-", stdin=text)
    assert "document 1: skipped, not a Federation (Service)" in skipped.stderr
    assert "other" not in skipped.stdout
    passed = run("render", "--all", "-", stdin=text)
    assert next(yaml.safe_load_all(passed.stdout)) == SERVICE
    assert "skipped" not in passed.stderr


def test_the_items_of_a_list_are_read() -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": [document(), SERVICE]}
    assert run("validate", "-", stdin=json.dumps(items)).exit_code == 0


def test_nothing_is_printed_when_anything_is_wrong() -> None:
    text = yaml.safe_dump_all([document(), document(version="0.1")])
    result = run("render", "-", stdin=text)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "document 2: spec.version" in result.stderr


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda folder: folder / "absent.yaml", "No such file or directory"),
        (lambda folder: folder, "holds no file that ends in"),
        (lambda folder: write(folder, b"\xff\xfe"), "is not UTF-8 text"),
        (lambda folder: write(folder, b"a: ["), "line 2, column 1"),
        (lambda folder: write(folder, b""), "no Federation found"),
        (lambda folder: write(folder, b"kind: Service"), "no Federation found"),
    ],
)
def test_what_cannot_be_read_is_said(
    tmp_path: Path, prepare: Callable[[Path], Path], said: str
) -> None:
    result = run("validate", str(prepare(tmp_path)))
    assert result.exit_code == 1
    assert said in result.stderr


def write(folder: Path, content: bytes) -> Path:
    path = folder / "file.yaml"
    path.write_bytes(content)
    return path


def test_notices_are_shown_and_no_fault() -> None:
    manifest = document(supernodes={"image": "my-app:latest"})
    result = run("validate", "-", stdin=yaml.safe_dump(manifest))
    assert result.exit_code == 0
    assert "note: spec.supernodes.image: my-app:latest names no Flower release" in result.stderr


def test_the_crd_command_prints_the_crd() -> None:
    printed = yaml.load(run("crd").stdout, yaml.CSafeLoader)
    assert printed == custom_resource_definition()


def test_the_table_of_releases() -> None:
    lines = run("releases").stdout.splitlines()
    assert lines[1].split()[:3] == ["1.23", "gRPC", "9092"]
    assert lines[12].split()[:3] == ["1.40", "HTTP", "8000"]
    assert lines[7].endswith("task volumes: yes")
    assert "superexec root certificates: --root-certificates" in lines[5]


def test_the_documented_commands_of_the_plugin_are_there() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    lines = re.findall(r"^kubectl flower (\S+) ?(.*)$", text, re.MULTILINE)
    for name, arguments in lines:
        plugin.commands[name].make_context(name, arguments.split())
    assert {name for name, _ in lines} == set(plugin.commands)


@pytest.mark.parametrize("command", ["main(['--help'])", "plugin()"])
def test_help_loads_no_heavy_library(command: str) -> None:
    code = (
        "import sys; from flower_operator.cli import main, plugin\n"
        "sys.argv[1:] = ['--help']\n"
        f"try: {command}\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'aiohttp', 'pydantic', 'yaml', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
