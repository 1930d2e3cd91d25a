"""The commands, as a user meets them."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from flower_operator import __version__
from flower_operator.api.crd import custom_resource_definition
from flower_operator.cli import main
from flower_operator.cli.plugin import plugin
from flower_operator.trust.certificates import with_new_authority
from flower_operator.trust.layout import Stored
from scripts.manifests import EXAMPLES, FLEET, ROOT
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
    assert result.stdout.count("is valid") == 17


def test_a_fault_is_told_with_file_document_and_field(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    documents = [document(), document(superlink={"imag": "x"})]
    path.write_text(yaml.safe_dump_all(documents))
    result = run("validate", str(path))
    assert result.exit_code == 1
    assert f"{path}, document 1: federation fed is valid" in result.stdout
    assert result.stderr.endswith(
        f"error: {path}:25: spec.superlink.imag: is not a field; did you mean image?\n"
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
    assert "standard input:32: spec.version" in result.stderr


def kinds(result: Result) -> list[str]:
    return [each["kind"] for each in yaml.safe_load_all(result.stdout)]


FLEET_KINDS = ["AddOnTemplate", "ClusterManagementAddOn", "AddOnDeploymentConfig"]


def test_a_fleet_is_rendered_after_the_hub() -> None:
    plain, fleet = run("render", str(FLEET)), run("render", "--fleet", str(FLEET))
    assert kinds(fleet) == [*kinds(plain), *FLEET_KINDS, "ManifestWorkReplicaSet"]
    assert (
        "note: ConfigMap fleet-supernode-hospitals-ca of other clusters is left out" in fleet.stderr
    )
    assert "note: ConfigMap" not in plain.stderr


def test_placements_beside_a_fleet_are_passed_through() -> None:
    passed = run("render", "--fleet", "--all", str(FLEET.parent))
    assert kinds(passed)[:4] == ["Namespace", "ManagedClusterSetBinding", "Placement", "Placement"]


def test_what_clusters_are_to_trust_comes_from_a_file(tmp_path: Path) -> None:
    files = with_new_authority(Stored(), "fleet", "flower-system", datetime.now(UTC))
    authority = files["ca.crt"]
    path = tmp_path / "ca.crt"
    path.write_text(authority)
    result = run("render", "--fleet", "--ca", str(path), str(FLEET))
    assert (result.exit_code, result.stderr) == (0, "")
    (template,) = (
        each for each in yaml.safe_load_all(result.stdout) if each["kind"] == "AddOnTemplate"
    )
    manifests = template["spec"]["agentSpec"]["workload"]["manifests"]
    assert [
        each["data"]
        for each in manifests
        if each["metadata"]["name"] == "fleet-supernode-hospitals-ca"
    ] == [{"ca.crt": authority}]
    path.write_text("".join(files.values()))
    result = run("render", "--fleet", "--ca", str(path), str(FLEET))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "holds a private key" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ca", str(FLEET), str(FLEET)], "--ca is for --fleet"),
        (["--fleet", "--ca", str(FLEET), str(FLEET)], "holds no certificates in PEM"),
        (["--fleet", "--ca", str(FLEET), str(FLEET), str(FLEET)], "there are several"),
    ],
)
def test_a_file_that_clusters_cannot_trust_is_refused(arguments: list[str], said: str) -> None:
    result = run("render", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.parametrize(
    "service",
    [
        {},
        {"type": "LoadBalancer"},
        {"type": "NodePort", "nodePorts": {"grpc": 30092}},
        {"type": "NodePort", "externalAddress": "hub.example.com"},
    ],
)
def test_an_address_that_only_a_cluster_knows_has_to_be_set(service: dict[str, object]) -> None:
    manifest = document(pool={"placement": {"name": "all"}}, superlink={"service": service})
    text = yaml.safe_dump(manifest)
    assert run("render", "-", stdin=text).exit_code == 0
    result = run("render", "--fleet", "-", stdin=text)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "spec.superlink.service: " in result.stderr
    assert "to know it without a cluster: externalAddress" in result.stderr


def test_where_skupper_leads_clusters_no_address_has_to_be_set() -> None:
    manifest = document(pool={"placement": {"name": "all"}}, interconnect="skupper")
    result = run("render", "--fleet", "-", stdin=yaml.safe_dump(manifest))
    assert result.exit_code == 0
    assert "what lets other clusters link by Skupper is left out" in result.stderr
    (config,) = (
        each
        for each in yaml.safe_load_all(result.stdout)
        if each["kind"] == "AddOnDeploymentConfig"
    )
    variables = {each["name"]: each["value"] for each in config["spec"]["customizedVariables"]}
    assert variables["SUPERLINK_ADDRESS"] == "fed-superlink"


def test_without_placement_a_fleet_is_what_it_is_without() -> None:
    path = str(EXAMPLES / "federation-multipools.yaml")
    assert run("render", "--fleet", path).stdout == run("render", path).stdout


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda folder: folder / "absent.yaml", "No such file or directory"),
        (lambda folder: folder, "holds no file that ends in"),
        (lambda folder: write(folder, b"\xff\xfe"), "is not UTF-8 text"),
        (lambda folder: write(folder, b"a: ["), "file.yaml:2:1: "),
        (
            lambda folder: write(folder, b"a" * (10 * 1024**2 + 1)),
            "file.yaml: is larger than 10 MiB",
        ),
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


def test_a_file_that_cannot_be_read_hides_nothing_of_the_others(tmp_path: Path) -> None:
    write(tmp_path, b"\x89PNG\r\n").rename(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").mkdir()
    (tmp_path / "c.yaml").symlink_to(tmp_path / "absent")
    write(tmp_path, yaml.safe_dump(document(mode="x")).encode()).rename(tmp_path / "d.yaml")
    assert run("validate", str(tmp_path)).stderr.splitlines() == [
        f"error: {tmp_path}/a.yaml: is not UTF-8 text: invalid start byte at byte 0",
        f"error: {tmp_path}/b.yaml: Is a directory",
        f"error: {tmp_path}/c.yaml: No such file or directory",
        f"error: {tmp_path}/d.yaml:7: spec.mode: must be 'DaemonSet' or 'StatefulSet', not 'x'",
    ]


def test_standard_input_that_is_no_text_is_said() -> None:
    result = CliRunner().invoke(main, ["validate", "-"], input=b"\xff")
    assert result.stderr == (
        "error: standard input: is not UTF-8 text: invalid start byte at byte 0\n"
    )


def test_a_fault_has_the_line_of_its_field() -> None:
    manifest = document(pool={"nodeConfig": {"a.b": "x", "n": str(2**63)}})
    items = {"apiVersion": "v1", "kind": "List", "items": [SERVICE, manifest]}
    text = yaml.safe_dump(items, sort_keys=False)
    (line,) = (at for at, line in enumerate(text.splitlines(), 1) if line.strip().startswith("n:"))
    path = "spec.supernodes.pools[0].nodeConfig.n"
    for command in ("validate", "up"):
        assert run(command, "-", stdin=text).stderr.splitlines()[-1] == (
            f"error: standard input:{line}: {path}: the value is an integer that does not fit in "
            "64 bits"
        )
    del manifest["spec"]["superlink"]["image"]
    said = run("validate", "-", stdin=yaml.safe_dump(manifest, sort_keys=False)).stderr
    assert said.startswith("error: standard input:8: spec.superlink.image: ")


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
