"""The rendered command lines of every example, before each release's own parsers."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from flower_operator.api.manifest import parse
from flower_operator.flower.dialects import Api, Dialect, dialect_of
from flower_operator.flower.releases import Release
from flower_operator.local.expansion import expand
from flower_operator.render import Facts, render
from flower_operator.render import releases as render_releases
from flower_operator.runs.environments import environment
from flower_operator.status.troubles import Trouble, refuses_arguments
from scripts.manifests import EXAMPLES
from tests.harness.releases import QUICK_RELEASES, RELEASES, extended_unless
from tests.unit.federations import document as federation_document

ASK = Path(__file__).with_name("parse_arguments.py")
COMMANDS = {
    "superlink": "flower-superlink",
    "supernode": "flower-supernode",
    "superexec-serverapp": "flower-superexec",
    "superexec-clientapp": "flower-superexec",
}
VARIABLES = {
    "FLOWER_INDEX": "1",
    "FLOWER_NODE_NAME": "node-a",
    "FLOWER_POD_IP": "10.0.0.7",
    "FLOWER_POD_NAME": "federation-kubernetes-executor-supernode-1",
}
POOL_LABEL = "flower.flwr.ai/pool"


@pytest.mark.parametrize("release", extended_unless(QUICK_RELEASES, RELEASES), ids=str)
def test_every_example_is_accepted_and_understood(release: Release) -> None:
    (complaints,) = judge(release, [dialect_of(release)])
    assert not complaints


@pytest.mark.parametrize("container", COMMANDS)
def test_what_the_oldest_release_says_of_the_flags_of_the_newest_is_recognized(
    container: str,
) -> None:
    """The status then names the release that was assumed."""
    newest = federation_document(isolation="process", version=str(RELEASES[-1]))
    found = dict(containers_by_name(newest))[container]
    arguments = [expand(text, VARIABLES) for text in found["args"]]
    (answer,) = ask(RELEASES[0], [[COMMANDS[container], arguments]])
    words = " ".join(answer["error"].split())
    trouble = Trouble("CrashLoop", f"container {container} ended with exit code 2: {words}")
    assert refuses_arguments(trouble, container), answer


def containers_by_name(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for _, container in containers(render(parse(document), Facts()).objects):
        yield container["name"], container


@pytest.mark.extended
@pytest.mark.parametrize("release", [RELEASES[0], RELEASES[-1]], ids=str)
def test_a_wrong_flag_in_the_table_is_noticed(release: Release) -> None:
    changes, dialects = zip(*mutations(dialect_of(release)), strict=True)
    judgements = judge(release, list(dialects))
    unnoticed = [change for change, found in zip(changes, judgements, strict=True) if not found]
    assert not unnoticed
    assert len(changes) >= 20


def mutations(dialect: Dialect) -> Iterator[tuple[str, Dialect]]:
    """The dialect with one flag renamed, or taken away where a dialect may lack it."""
    for field in fields(dialect):
        value = getattr(dialect, field.name)
        if isinstance(value, str) and value.startswith("--"):
            yield changed(dialect, field.name, f"{value}-renamed")
            if field.type in (str | None, "str | None"):
                yield changed(dialect, field.name, None)
        elif isinstance(value, Api):
            flags = tuple(f"{flag}-renamed" for flag in value.flags)
            yield changed(dialect, field.name, replace(value, flags=flags))
            yield changed(dialect, field.name, replace(value, port=value.port + 1))


def changed(dialect: Dialect, field: str, value: Any) -> tuple[str, Dialect]:
    return f"{field} = {value}", replace(dialect, **{field: value})


def judge(release: Release, dialects: list[Dialect]) -> list[list[str]]:
    """What this release's parsers, or what they understood, say against each dialect."""
    lines = [list(command_lines(release, dialect)) for dialect in dialects]
    questions = [[COMMANDS[each["container"]], each["arguments"]] for own in lines for each in own]
    answers = iter(ask(release, questions))
    return [
        [text for line in own for text in complain(release, line, next(answers))] for own in lines
    ]


def complain(release: Release, line: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    if "error" in answer:
        return [f"{line['container']} {line['arguments']}: {answer['error']}"]
    documented = answer["parsed"]
    found = [
        f"{line['container']}: {flag} is not documented"
        for flag in line["arguments"]
        if flag.startswith("--") and flag not in documented
    ]
    wanted = meaning(release, line)
    got = {flag: documented.get(flag) for flag in wanted}
    if got != wanted:
        found.append(f"{line['container']}: meant {wanted}, understood {got}")
    return found


def command_lines(release: Release, dialect: Dialect) -> Iterator[dict[str, Any]]:
    seen = set()
    for document in variations(release):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(render_releases, "dialect_of", lambda _: dialect)
            objects = render(parse(document), Facts()).objects
        executors = executors_of(document)
        for pool, container in containers(objects):
            arguments = [expand(text, VARIABLES) for text in container["args"]]
            line = {
                "container": container["name"],
                "arguments": arguments,
                "isolation": document["spec"]["isolationMode"],
                "insecure": document["spec"]["insecure"],
                "launches_pods": executors[pool] == "kubernetes",
                "persistent": "persistence" in document["spec"]["superlink"],
                "authenticated": "supernodeAuth" in document["spec"],
                "gateway": "gateway" in document["spec"]["superlink"],
                "external": document["spec"]["superlink"].get("external", {}).get("address"),
            }
            if (key := json.dumps(line)) not in seen:
                seen.add(key)
                yield line


def variations(release: Release) -> Iterator[dict[str, Any]]:
    """Every example at this release, in both isolations, with and without TLS."""
    for document in example_documents():
        for isolation in ("process", "subprocess"):
            for insecure in (True, False):
                copy = json.loads(document)
                spec = copy["spec"]
                spec |= {"version": str(release), "isolationMode": isolation, "insecure": insecure}
                superexec = "flwr/superexec" if isolation == "process" else None
                if "external" not in spec["superlink"]:
                    spec["superlink"]["superexecImage"] = superexec
                for pool in spec["supernodes"]["pools"]:
                    pool.setdefault("images", {})["superexecClientApp"] = superexec
                if insecure:
                    spec.pop("supernodeAuth", None)
                if "supernodeAuth" in spec:
                    spec["supernodeAuth"]["allowSubprocess"] = True
                leave_possible_executors(spec, release)
                yield copy


def leave_possible_executors(spec: dict[str, Any], release: Release) -> None:
    process, insecure = spec["isolationMode"] == "process", spec["insecure"]
    if not process or release.minor < (32 if insecure else 37):
        spec["superlink"].pop("executor", None)
    # Before 1.33 tasks could not mount what the example has.
    if not process or release.minor < 33:
        for pool in spec["supernodes"]["pools"]:
            pool.pop("executor", None)


def executors_of(document: dict[str, Any]) -> dict[str | None, str | None]:
    """Who runs apps how, by pool; None is the SuperLink."""
    spec = document["spec"]
    pools = {pool["name"]: pool.get("executor") for pool in spec["supernodes"]["pools"]}
    return {None: spec["superlink"].get("executor"), **pools}


@cache
def example_documents() -> tuple[str, ...]:
    return tuple(
        json.dumps(document)
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    )


def containers(objects: tuple[dict[str, Any], ...]) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Every container of Flower's, with the pool that it belongs to."""
    for each in objects:
        if "template" in each.get("spec", {}):
            pool = each["metadata"]["labels"].get(POOL_LABEL)
            for container in each["spec"]["template"]["spec"]["containers"]:
                if container["name"] in COMMANDS:
                    yield pool, container


def meaning(release: Release, line: dict[str, Any]) -> dict[str, Any]:
    """What flwr must have understood, written down apart from the dialect table."""
    match line["container"]:
        case "superlink":
            return superlink_meaning(release, line)
        case "supernode":
            return supernode_meaning(release, line)
        case _:
            return superexec_meaning(release, line)


def superlink_meaning(release: Release, line: dict[str, Any]) -> dict[str, Any]:
    insecure, process = line["insecure"], line["isolation"] == "process"
    # A gateway has its certificate, asks for keys, and is the only one to reach it.
    host = "127.0.0.1" if line["gateway"] else "0.0.0.0"
    plain = insecure or line["gateway"]
    wanted: dict[str, Any] = {
        "--isolation": line["isolation"],
        "--insecure": plain,
        "--enable-supernode-auth": line["authenticated"] and not line["gateway"],
        "--health-server-address": "0.0.0.0:9097",
    }
    wanted |= certificate_meaning("--ssl", None if plain else "tls")
    # From 1.30 on it can have TLS, where ServerApps have a pod of their own.
    remote = process and line["persistent"] and release.minor >= 30
    exposed = process and (insecure or line["launches_pods"] or remote) and not line["gateway"]
    if 30 <= release.minor < 37:
        wanted |= certificate_meaning("--appio-ssl", "tls" if remote and not insecure else None)
    runtime = "0.0.0.0" if exposed else "127.0.0.1"
    if release.minor < 35:
        wanted["--serverappio-api-address"] = f"{runtime}:9091"
    elif release.minor < 37:
        wanted |= {"--host": runtime, "--port": 8000}
    else:
        wanted |= {"--host": host, "--port": 8000}
    if release.minor < 37:
        wanted["--control-api-address"] = f"{host}:9093"
    if release.minor < 40:
        wanted["--fleet-api-address"] = f"{host}:9092"
    if release.minor >= 29:
        secret = process and not insecure
        wanted["--superexec-auth-secret-file"] = "/etc/flower/superexec/secret" if secret else None
    if release.minor >= 32:
        wanted["--disable-runtime-dependency-installation"] = False
    if line["persistent"]:
        wanted["--database"] = "/var/lib/flower/superlink.db"
    if line["persistent"] and release.minor < 29:
        wanted["--storage-dir"] = "/var/lib/flower/apps"
    return wanted


def supernode_meaning(release: Release, line: dict[str, Any]) -> dict[str, Any]:
    insecure = line["insecure"]
    name = line["arguments"][line["arguments"].index("--superlink") + 1].partition("-superlink.")[0]
    wanted: dict[str, Any] = {
        "--superlink": line["external"] or f"{name}-superlink.default.svc:9092",
        "--isolation": line["isolation"],
        "--insecure": insecure,
        "--health-server-address": "0.0.0.0:9097",
        "--root-certificates": None if insecure else "/etc/flower/ca/ca.crt",
        "--auth-supernode-private-key": "/etc/flower/key" if line["authenticated"] else None,
        "--node-config": NODE_CONFIGS.get(name),
    }
    if name == "federation-newest" and "node.toml" not in " ".join(line["arguments"]):
        wanted["--node-config"] = 'name="hospitals-1" num-partitions=4 partition-id=1'
    host = "0.0.0.0" if line["launches_pods"] else "127.0.0.1"
    if release.minor < 35:
        wanted["--clientappio-api-address"] = f"{host}:9094"
    else:
        wanted |= {"--host": host, "--port": 9094}
    shares = line["isolation"] == "process" and not insecure
    if release.minor >= 29:
        wanted["--superexec-auth-secret-file"] = "/etc/flower/superexec/secret" if shares else None
    if release.minor >= 30:
        flag = "--ssl" if release.minor >= 37 else "--appio-ssl"
        serves = shares and not line["external"]
        wanted |= certificate_meaning(flag, "supernode-tls" if serves else None)
    return wanted


def certificate_meaning(flag: str, volume: str | None) -> dict[str, Any]:
    files = {"-ca-certfile": "ca.crt", "-certfile": "tls.crt", "-keyfile": "tls.key"}
    return {
        f"{flag}{end}": f"/etc/flower/{volume}/{file}" if volume else None
        for end, file in files.items()
    }


NODE_CONFIGS = {
    "flower.example.org:30092": 'shard=1 site="berlin"',
    "federation-gateway": "num-partitions=2 partition-id=1",
    "federation-nodeconfig": 'name="client_default_1" num-partitions=4 partition-id=1',
    "federation-nodeconfig-daemonset": 'name="client_node-a" node-id="node-a" pool="edge"',
    "federation-newest": "/etc/flower/node-config/node.toml",
}


def superexec_meaning(release: Release, line: dict[str, Any]) -> dict[str, Any]:
    plugin = line["container"].removeprefix("superexec-")
    port = 9094 if plugin == "clientapp" else 9091 if release.minor < 35 else 8000
    runtime = "--appio-api-address" if release.minor < 36 else "--runtime-api-address"
    # Before that, or without a CA of its own, it is plain, on the pod's loopback.
    follows = plugin == "serverapp" and not line["persistent"]
    tls = not line["insecure"] and release.minor >= (37 if follows else 30)
    tls = tls and not line["external"] and not (line["gateway"] and follows)
    address = f"127.0.0.1:{port}"
    if plugin == "serverapp" and line["persistent"] and (line["insecure"] or tls):
        address = "federation-secure-superlink.default.svc:9091"
    if line["launches_pods"]:
        name = "federation-kubernetes-executor"
        node = f"{name}-supernode-1.{name}-supernodes.default.svc" if tls else "10.0.0.7"
        link = f"{name}-superlink.default.svc:9091"
        address = link if plugin == "serverapp" else f"{node}:9094"
    wanted: dict[str, Any] = {
        runtime: address,
        "--insecure": not tls,
        "--health-server-address": "0.0.0.0:9098",
    }
    if release.minor < 38:
        wanted["--plugin-type"] = plugin
    if release.minor >= 32:
        file = "/etc/flower/executor/executor.yaml"
        wanted["--executor"] = "kubernetes" if line["launches_pods"] else "subprocess"
        wanted["--executor-config"] = file if line["launches_pods"] else None
    if release.minor >= 30:
        wanted["--root-certificates"] = "/etc/flower/ca/ca.crt" if tls else None
    if release.minor >= 29:
        secret = None if line["insecure"] else "/etc/flower/superexec/secret"
        wanted["--superexec-auth-secret-file"] = secret
    return wanted


def ask(release: Release, questions: list[Any]) -> list[dict[str, Any]]:
    python = environment(release) / "bin" / "python"
    done = subprocess.run(
        [python, ASK], input=json.dumps(questions), capture_output=True, text=True, check=True
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers
