"""No input ends a command in a traceback: it is accepted, or refused in words."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from flower_operator.cli import main
from flower_operator.local import starting
from flower_operator.local.federations import LocalError
from tests.cluster.test_agreement import Document, anything, manifests
from tests.unit.federations import document

COMMANDS = ("validate", "render", "up")

# What YAML has and JSON has not, and what Python and YAML read differently.
PIECES = [
    "apiVersion: flwr.exalsius.ai/v1\n",
    "kind: Federation\n",
    "kind: List\nitems: [1]\n",
    "metadata: {name: fed}\n",
    "metadata: {name: 1}\n",
    "spec: {mode: StatefulSet}\n",
    "spec: null\n",
    "---\n",
    "- a\n",
    "? [a]\n: b\n",
    "a: &x [*x]\n",
    "<<: 1\n",
    "<<: {a: 1}\n",
    "b: 2026-01-01\n",
    "c: 0x" + "f" * 5_000 + "\n",
    'd: "\\ud800"\n',
    "e: !!binary aGVsbG8=\n",
    "f: !!python/object:os.system x\n",
    "g: .inf\n",
    "h: 1:30:00\n",
    "%YAML 9.9\n",
    "\t\n",
    "\x00",
    "\ufeff",
    "'",
]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=8).map("".join)

few = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def invoke(tmp_path: Path) -> Callable[[bytes], None]:
    """Give a manifest to each command. `up` goes as far as starting processes."""

    def stop(*_: object) -> None:
        raise LocalError("nothing is started here")

    def run(content: bytes) -> None:
        path = tmp_path / "manifest.yaml"
        path.write_bytes(content)
        state = {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
        with (
            patch.dict(os.environ, state),
            patch.object(starting, "_spawn", stop),
            patch.object(starting, "environment", lambda *_: tmp_path),
        ):
            for command in COMMANDS:
                result = CliRunner().invoke(main, [command, str(path)])
                error = result.exception
                assert error is None or isinstance(error, SystemExit), (command, error)

    return run


def test_bytes(invoke: Callable[[bytes], None]) -> None:
    @few
    @given(st.binary(max_size=64) | st.text(max_size=64).map(lambda text: text.encode("utf-16")))
    def check(content: bytes) -> None:
        invoke(content)

    check()


def test_yaml(invoke: Callable[[bytes], None]) -> None:
    @few
    @given(texts)
    @example("".join(PIECES[:5]))
    def check(text: str) -> None:
        invoke(text.encode("utf-8", "surrogatepass"))

    check()


def test_what_comes_with_a_manifest(invoke: Callable[[bytes], None]) -> None:
    secrets = st.fixed_dictionaries(
        {"kind": st.sampled_from(["Secret", "List", "Federation", 1])},
        optional={
            "apiVersion": anything,
            "metadata": anything | st.just({"name": "fed-supernode-default-keys"}),
            "items": anything,
            "data": anything | st.dictionaries(st.sampled_from(["0", "a/b"]), st.text(max_size=4)),
        },
    )

    @settings(few, max_examples=30)
    @given(st.lists(secrets, max_size=2), st.booleans())
    @example([{"kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "not base64"}}], True)
    @example([{"kind": "Secret", "metadata": "s"}], False)
    def check(others: list[Document], external: bool) -> None:
        manifest = document(superlink={"service": {"type": "ClusterIP"}})
        if external:
            manifest["spec"]["superlink"] = {"external": {"address": "a:1", "ca": "pem"}}
            manifest["spec"] |= {"insecure": False, "supernodeAuth": {"enabled": True}}
        invoke(yaml.safe_dump_all([manifest, *others]).encode())

    check()


def test_a_number_of_thousands_of_digits(invoke: Callable[[bytes], None]) -> None:
    text = yaml.safe_dump(document(pool={"replicas": 4711}))
    invoke(text.replace("4711", "0x" + "f" * 5_000).encode())


def test_manifests(invoke: Callable[[bytes], None]) -> None:
    @few
    @given(manifests())
    def check(manifest: Document) -> None:
        invoke(yaml.safe_dump(manifest).encode())

    check()


extremes = (
    st.sampled_from(
        [
            0,
            -1,
            1,
            2**31,
            2**63,
            10**30,
            0.5,
            "",
            "\ud800",
            "a\x00b",
            "$(A)",
            "{{A}}",
            "../..",
            "-",
            None,
        ]
    )
    | anything
)
WHERE = [
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "annotations"),
    ("spec", "version"),
    ("spec", "superlink", "service"),
    ("spec", "superlink", "service", "ports"),
    ("spec", "superlink", "service", "ports", "extra"),
    ("spec", "superlink", "env"),
    ("spec", "superlink", "volumes"),
    ("spec", "superlink", "resources", "limits", "cpu"),
    ("spec", "superlink", "persistence", "size"),
    ("spec", "superlink", "podTemplate", "spec", "containers"),
    ("spec", "superlink", "podTemplate", "spec", "terminationGracePeriodSeconds"),
    ("spec", "superlink", "external", "address"),
    ("spec", "tls", "rotation", "maxWait"),
    ("spec", "networkPolicy", "egress"),
    ("spec", "supernodes", "pools", 0, "replicas"),
    ("spec", "supernodes", "pools", 0, "nodeConfig", "k"),
    ("spec", "supernodes", "pools", 0, "gpu", "count"),
    ("spec", "supernodes", "pools", 0, "placement", "rollout", "maxFailures"),
    ("spec", "supernodes", "pools", 0, "volumeClaimTemplates"),
]


def test_one_field_of_a_manifest(invoke: Callable[[bytes], None]) -> None:
    @settings(few, max_examples=80)
    @given(st.sampled_from(WHERE), extremes, st.sampled_from(["process", "subprocess"]))
    def check(where: tuple[str | int, ...], value: object, isolation: str) -> None:
        manifest = document(isolation=isolation)
        part: Any = manifest
        for step in where[:-1]:
            part = part[step] if isinstance(step, int) else part.setdefault(step, {})
        part[where[-1]] = value
        invoke(yaml.safe_dump(manifest).encode())

    check()


def test_lists_of_names(invoke: Callable[[bytes], None]) -> None:
    """Names that clash with each other and with the operator's own."""
    names = st.sampled_from(
        ["a", "state", "flower-tls", "flower-scratch", "supernode", "superlink"]
    )
    ports = st.sampled_from([9091, 9092, 9093, 30000])

    @settings(few, max_examples=60)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        claims = [
            {"metadata": {"name": each}, "spec": {}}
            for each in data.draw(st.lists(names, max_size=2))
        ]
        volumes = [{"name": each, "emptyDir": {}} for each in data.draw(st.sets(names, max_size=2))]
        mounts = [
            {
                "name": each,
                "mountPath": data.draw(st.sampled_from(["/data", "/tmp", "/var/lib/flower"])),
            }
            for each in data.draw(st.lists(names, max_size=1))
        ]
        service = {
            "type": "NodePort",
            "ports": data.draw(
                st.dictionaries(st.sampled_from(["grpc", "extra", "serverAppIO"]), ports)
            ),
            "nodePorts": data.draw(st.dictionaries(st.sampled_from(["grpc", "extra"]), ports)),
        }
        fields = {"volumes": volumes, "volumeClaimTemplates": claims, "volumeMounts": mounts}
        kept = {"persistence": {"size": "1Gi"}} if data.draw(st.booleans()) else {}
        manifest = document(
            isolation=data.draw(st.sampled_from(["process", "subprocess"])),
            insecure=data.draw(st.booleans()),
            superlink={**fields, **kept, "service": service},
            pool=fields,
        )
        invoke(yaml.safe_dump(manifest).encode())

    check()
