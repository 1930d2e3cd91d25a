"""The node config, from the manifest to the text that flwr reads."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flower_operator.flower import node_config
from flower_operator.local.expansion import expand
from tests.unit.federations import Document, container, find, plan, pod, value_of
from tests.unit.test_render import render_problems


def text(**fields: str) -> str:
    return " ".join(node_config.items(fields, {}, {}))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("cifar10", '"cifar10"'),
        ("32", "32"),
        ("-7", "-7"),
        ("0.01", "0.01"),
        ("1e-3", "1e-3"),
        ("true", "true"),
        ("True", '"True"'),
        ("007", '"007"'),
        ("1_000", '"1_000"'),
        ("0x1f", '"0x1f"'),
        (".5", '".5"'),
        ("nan", '"nan"'),
        ("2026-01-01", '"2026-01-01"'),
        ("[1, 2]", '"[1, 2]"'),
        ("", '""'),
        ('say "hi"', '"say \\u0022hi\\u0022"'),
        ("C:\\data", '"C:\\\\data"'),
        ("two\nlines", '"two\\u000alines"'),
    ],
)
def test_a_value_keeps_its_type_and_its_characters(value: str, written: str) -> None:
    assert text(key=value) == f"key={written}"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{")))
def test_any_text_comes_back_as_it_was(value: str) -> None:
    (pair,) = node_config.items({"key": f"x{value}"}, {}, {})
    assert tomllib.loads(pair)["key"] == f"x{value}"
    assert pair.count('"') == 2


@pytest.mark.parametrize("key", ["", "a b", "a=b", "é", "a\n", '"a"', "a.", ".a", "a..b", "[a]"])
def test_a_key_that_flwr_would_refuse_or_drop_is_named(key: str) -> None:
    assert [found for found, _ in node_config.unfit_keys([key])] == [key]


def test_keys_that_collide_are_named() -> None:
    assert [key for key, _ in node_config.unfit_keys(["a", "a.b", "c.d", "c.e"])] == ["a.b"]


def test_an_integer_too_large_for_flwr_is_refused() -> None:
    path = "spec.supernodes.pools[0].nodeConfig.n"
    said = f"{path}: the value is an integer that does not fit in 64 bits"
    assert render_problems(pool={"nodeConfig": {"n": str(2**63)}}) == [said]
    assert value_of(arguments({"n": str(2**63 - 1)}), "--node-config") == f"n={2**63 - 1}"


def arguments(config: Document, **fields: object) -> list[str]:
    rendered = plan(pool={"nodeConfig": config, **fields})
    found: list[str] = container(
        pod(rendered, "StatefulSet", "fed-supernode-default"), "supernode"
    )["args"]
    return found


def test_the_documented_text_for_each_pod() -> None:
    config = {
        "partition-id": "{index}",
        "num-partitions": "{replicas}",
        "name": "client_{pool}_{index}",
    }
    written = value_of(arguments(config, replicas=4), "--node-config")
    for index in range(4):
        assert expand(written, {"FLOWER_INDEX": str(index)}) == (
            f'name="client_default_{index}" num-partitions=4 partition-id={index}'
        )


def test_the_index_comes_from_the_downward_api_and_no_shell_is_used() -> None:
    rendered = plan(pool={"nodeConfig": {"i": "{index}", "n": "{node}"}})
    supernode = container(pod(rendered, "StatefulSet", "fed-supernode-default"), "supernode")
    sources = {each["name"]: each.get("valueFrom") for each in supernode["env"]}
    assert sources["FLOWER_INDEX"] == {
        "fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}
    }
    assert sources["FLOWER_NODE_NAME"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert "command" not in supernode


@pytest.mark.parametrize("value", ["$(touch /tmp/x)", "$(FLOWER_INDEX)", "$$", "`id`", "$HOME"])
def test_no_value_is_taken_for_a_reference(value: str) -> None:
    written = value_of(arguments({"note": value, "i": "{index}"}), "--node-config")
    assert expand(written, {"FLOWER_INDEX": "1", "HOME": "/"}) == f'i=1 note="{value}"'


def test_partitions_are_numbered_across_pools() -> None:
    config = {"partition-id": "{partition}", "num-partitions": "{partitions}", "i": "{index}"}
    pools = [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 3}]
    rendered = plan(pools=[pool | {"nodeConfig": config} for pool in pools])
    first = container(pod(rendered, "StatefulSet", "fed-supernode-a"), "supernode")["args"]
    assert value_of(first, "--node-config") == (
        "i=$(FLOWER_INDEX) num-partitions=5 partition-id=$(FLOWER_INDEX)"
    )
    second = pod(rendered, "StatefulSet", "fed-supernode-b")
    supernode = container(second, "supernode")
    path = value_of(supernode["args"], "--node-config")
    (mount,) = (each for each in supernode["volumeMounts"] if each["mountPath"] == path)
    assert mount["subPathExpr"] == "$(FLOWER_INDEX).toml"
    files = find(rendered, "ConfigMap", "fed-supernode-b")["data"]
    assert [tomllib.loads(files[f"{index}.toml"]) for index in range(3)] == [
        {"i": 0, "num-partitions": 5, "partition-id": 2},
        {"i": 1, "num-partitions": 5, "partition-id": 3},
        {"i": 2, "num-partitions": 5, "partition-id": 4},
    ]


def test_a_changed_file_changes_the_pods() -> None:
    def annotations(note: str) -> Document:
        config = {"partition-id": "{partition}", "note": note}
        rendered = plan(pools=[{"name": "a"}, {"name": "b", "nodeConfig": config}])
        template = find(rendered, "StatefulSet", "fed-supernode-b")["spec"]["template"]
        found: Document = template["metadata"]["annotations"]
        return found

    assert annotations("x") == annotations("x") != annotations("y")


@pytest.mark.parametrize("name", ["index", "replicas", "partition", "partitions"])
def test_a_daemonset_has_no_numbering(name: str) -> None:
    fields = {"nodeConfig": {"a": f"{{{name}}}"}}
    (said,) = render_problems("DaemonSet", pool=fields)
    assert said == (
        f"spec.supernodes.pools[0].nodeConfig.a: {{{name}}} is not to be had in DaemonSet mode; "
        "use {node} or {pool}"
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("x{indx}", "{indx} is not a placeholder; did you mean {index}? "),
        ("{partion}", "{partion} is not a placeholder; did you mean {partition}? "),
        ("{Pool}", "{Pool} is not a placeholder; did you mean {pool}? "),
        ("{node-name}", "{node-name} is not a placeholder; "),
        ("{my_key}", "{my_key} is not a placeholder; there are {index}, {node}, "),
        ('{"a":{x}}', "{x} is not a placeholder; there are {index}, {node}, "),
        ("{{{x}}}", "{x} is not a placeholder; there are {index}, {node}, "),
    ],
)
def test_a_name_in_braces_that_is_no_placeholder_is_refused(value: str, said: str) -> None:
    (problem,) = render_problems(pool={"nodeConfig": {"a": value}})
    assert problem.startswith(f"spec.supernodes.pools[0].nodeConfig.a: {said}")
    name = said.split()[0]
    assert problem.endswith(f"rite {{{name}}} for the text {name}")


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("{{pool}}", "{pool}"),
        ("{{anything}}", "{anything}"),
        ("{{{pool}}}", "{default}"),
        ("{{{{pool}}}}", "{{pool}}"),
        ("{{{{{pool}}}}}", "{{default}}"),
        ("a{{b}}{pool}{{c}}d", "a{b}default{c}d"),
        # What is no name in braces stays as it is.
        ('{"a": 1}', '{"a": 1}'),
        ('{"a":{"b":{}}}', '{"a":{"b":{}}}'),
        ('{"a":{"b":"{pool}"}}', '{"a":{"b":"default"}}'),
        ('{"a":{"b":{pool}}}', '{"a":{"b":default}}'),
        ("{{pool}", "{default"),
        ("{pool}}", "default}"),
        ("{{}}", "{{}}"),
        ("{{.Name}}", "{{.Name}}"),
        ("{{ name }}", "{{ name }}"),
        ("{", "{"),
        ("}", "}"),
        ("a{3}b{1,2}", "a{3}b{1,2}"),
        ("{é}", "{é}"),
        ("{ pool }", "{ pool }"),
    ],
)
def test_doubled_braces_around_a_name_are_text(value: str, meant: str) -> None:
    config = {"a": value, "i": "{index}"}
    written = expand(value_of(arguments(config), "--node-config"), {"FLOWER_INDEX": "1"})
    assert tomllib.loads(written.replace(" i=", "\ni=")) == {"a": meant, "i": 1}


def test_doubled_braces_work_in_files_and_on_this_machine() -> None:
    config = {"a": "{{partition}} {partition}", "partition-id": "{partition}"}
    pools = [{"name": name, "nodeConfig": config} for name in ("a", "b")]
    files = find(plan(pools=pools), "ConfigMap", "fed-supernode-b")["data"]
    assert tomllib.loads(files["1.toml"]) == {"a": "{partition} 3", "partition-id": 3}
    values = ["{cluster}", "{{cluster}}", "{{{cluster}}}", "{{cluster}", '{"a":{cluster}}']
    filled = [node_config.fill_in(value, "cluster", "local") for value in values]
    assert filled == ["local", "{{cluster}}", "{{local}}", "{local", '{"a":local}']


def test_many_braces_take_no_time() -> None:
    assert not node_config.placeholders("{" * 1_000_000)
    assert not node_config.placeholders("{a" * 500_000)
    assert not node_config.placeholders("{" + "a" * 1_000_000)
