"""The models and the API server must agree on every manifest, good or broken."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from tests.cluster.test_crd import FEDERATIONS, STRICT
from tests.harness.control_plane import ControlPlane

pytestmark = pytest.mark.extended

Document = dict[str, Any]

words = st.text("abz09-. /{}A_é\n", max_size=8)
names = st.from_regex(r"[a-z]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True)
env = st.lists(st.fixed_dictionaries({"name": names}, optional={"value": words}), max_size=3)
quantities = st.sampled_from(["100m", "1", 2, "1Gi", "0.5", "1e3"])
resources = st.dictionaries(
    st.sampled_from(["limits", "requests"]),
    st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), quantities),
)
volume_names = names | st.sampled_from(["state", "flower-tls", "flower-data"])
templates = st.lists(
    st.fixed_dictionaries(
        {"metadata": st.fixed_dictionaries({"name": volume_names}), "spec": st.just({})}
    ),
    max_size=2,
)
volumes = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": volume_names, "emptyDir": st.just({})}),
        st.fixed_dictionaries({"name": volume_names, "secret": st.just({"secretName": "s"})}),
    ),
    max_size=2,
)
pod_templates = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"labels": st.just({"a": "b"})}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "nodeSelector": st.dictionaries(names, names, max_size=2),
                "tolerations": st.just([{"operator": "Exists", "tolerationSeconds": 5}]),
                "containers": st.just([{"name": "x", "ports": [{"containerPort": 80}]}]),
                "priority": st.sampled_from([0, 2**31 - 1, 2**31]),
            },
        ),
    },
)
gpus = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.booleans(),
        "vendor": st.sampled_from(["nvidia", "amd", "intel"]),
        "count": st.integers(0, 3),
        "mountAll": st.booleans(),
    },
)
executors = st.sampled_from(["subprocess", "kubernetes"])
images = st.fixed_dictionaries(
    {}, optional={"supernode": words, "superexecClientApp": st.sampled_from(["", "img"])}
)
pools = st.fixed_dictionaries(
    {"name": st.one_of(names, words)},
    optional={
        "replicas": st.sampled_from([0, 1, 3, 9_999, 10_001]),
        "images": images,
        "executor": executors,
        "gpu": gpus,
        "supernodeResources": resources,
        "podTemplate": pod_templates,
        "extraArgs": st.lists(words, max_size=2),
        "env": env,
        "volumes": volumes,
        "volumeClaimTemplates": templates,
        "nodeConfig": st.dictionaries(words, words, max_size=2),
    },
)
services = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
        "ports": st.dictionaries(
            st.sampled_from(["grpc", "serverAppIO", "extra"]),
            st.sampled_from([0, 1, 9091, 9093, 65536]),
        ),
        "nodePorts": st.dictionaries(
            st.sampled_from(["grpc", "serverAppIO", "extra"]), st.sampled_from([30000, 30001])
        ),
        "labels": st.dictionaries(names, names, max_size=1),
    },
)
claims = st.fixed_dictionaries(
    {},
    optional={
        "size": st.sampled_from([1, "1Gi", "-1", "lots", 0.5]),
        "storageClassName": names,
        "accessModes": st.lists(st.sampled_from(["ReadWriteOnce", "Never"]), max_size=1),
    },
)
peers = st.fixed_dictionaries(
    {},
    optional={
        "podSelector": st.fixed_dictionaries({}, optional={"matchLabels": st.just({"a": "b"})}),
        "ipBlock": st.sampled_from([{}, {"cidr": "10.0.0.0/8"}, {"cidr": "::/0", "except": []}]),
    },
)
network_policies = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.booleans(),
        "controlFrom": st.lists(peers, max_size=2),
        "egress": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "to": st.lists(peers, max_size=1),
                    "ports": st.lists(
                        st.dictionaries(st.sampled_from(["port", "endPort"]), st.just(53)),
                        max_size=1,
                    ),
                },
            ),
            max_size=1,
        ),
    },
)
certificates = st.fixed_dictionaries(
    {},
    optional={
        "secretName": names,
        "issuerRef": st.fixed_dictionaries({}, optional={"name": names, "kind": names}),
        "rotation": st.fixed_dictionaries(
            {}, optional={"maxWait": st.sampled_from(["12h", "1h30m", "", "1d", "h", "-1s", 5])}
        ),
        "subjectAltNames": st.lists(names, max_size=2),
    },
)
authentications = st.fixed_dictionaries(
    {}, optional={"enabled": st.booleans(), "allowSubprocess": st.booleans()}
)
externals = st.fixed_dictionaries(
    {
        "address": st.sampled_from(
            ["a.example:1", "10.0.0.1:65535", "[::1]:9092", "a:65536", "a:0", "a", ":1", "a b:1"]
        )
    },
    optional={"ca": st.sampled_from(["", "pem"])},
)
superlinks = st.fixed_dictionaries(
    {"image": st.sampled_from(["", "flwr/superlink:1.25.0"])},
    optional={
        "external": externals,
        "superexecImage": st.sampled_from(["", "img"]),
        "executor": executors,
        "resources": resources,
        "env": env,
        "podTemplate": pod_templates,
        "volumes": volumes,
        "volumeClaimTemplates": templates,
        "persistence": claims,
        "service": services,
    },
)
specs = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["DaemonSet", "StatefulSet"]),
        "isolationMode": st.sampled_from(["process", "subprocess"]),
        "superlink": superlinks,
        "supernodes": st.fixed_dictionaries(
            {"image": st.just("flwr/supernode:1.25.0"), "pools": st.lists(pools, max_size=3)},
            optional={"env": env},
        ),
    },
    optional={
        "version": st.sampled_from(["", "1.25.0"]),
        "insecure": st.booleans(),
        "networkPolicy": network_policies,
        "tls": certificates,
        "supernodeAuth": authentications,
    },
)
# No whole number written as a float: kubectl sends it as an integer.
anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.just(0.5), words, st.sampled_from(["process"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(names, inner, max_size=2)),
    max_leaves=4,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a document with each of its keys."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, child in list(pairs):
        found.append((value, key))
        if isinstance(child, dict | list):
            found += places(child)
    return found


@st.composite
def manifests(draw: st.DrawFn) -> Document:
    """Sound ones first, since few random ones are; then up to two fields changed."""
    spec: Document = json.loads(json.dumps(draw(specs)))
    if draw(st.sampled_from([True, True, True, False])):
        make_sound(spec)
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
        container, key = draw(st.sampled_from(places({"spec": spec})))
        match draw(st.sampled_from(["set", "set", "add", "remove"])):
            case "set":
                container[key] = draw(anything)
            case "remove" if isinstance(container, dict):
                del container[key]
            case _ if isinstance(container, dict):
                container[draw(names)] = draw(anything)
        if not isinstance(spec, dict) or not spec:
            break
    return {
        "apiVersion": "flwr.exalsius.ai/v1",
        "kind": "Federation",
        "metadata": {"name": draw(st.sampled_from(["agreement", "a" * 40, "a" * 54]))},
        "spec": spec,
    }


def make_sound(spec: Document) -> None:
    """Mend what the rules ask for, so that many manifests are accepted."""
    process = spec["isolationMode"] == "process"
    spec.pop("version", None)
    spec["superlink"] |= {"image": "img", "superexecImage": "img" if process else ""}
    service = spec["superlink"].get("service", {})
    if service.get("type") != "NodePort":
        spec["superlink"].pop("service", None)
    if external := spec["superlink"].get("external"):
        spec["superlink"] = {"external": external, "env": spec["superlink"].get("env", [])}
    pools = spec["supernodes"]["pools"] or [{}]
    for position, pool in enumerate(pools):
        pool |= {"name": f"pool-{position}", "images": {}, "gpu": {}}
        if process:
            pool["images"]["superexecClientApp"] = "img"
        if spec["mode"] == "StatefulSet":
            pool["replicas"] = 1
        else:
            pool.pop("replicas", None)
    spec["supernodes"]["pools"] = pools


def test_both_accept_or_both_refuse(control_plane: ControlPlane) -> None:
    verdicts: Counter[bool] = Counter()

    @settings(
        max_examples=800,
        derandomize=True,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(manifests())
    def compare(document: Document) -> None:
        status, answer = control_plane.request("POST", f"{FEDERATIONS}?{STRICT}", document)
        assert status in (201, 400, 422), answer
        try:
            parse(document)
            problems = ""
        except InvalidFederation as error:
            problems = str(error)
        verdicts[status == 201] += 1
        if status == 201:
            assert not problems, f"the API server accepts it, the models say: {problems}"
        else:
            assert problems, f"the models accept it, the API server says: {answer['message']}"

    compare()
    assert verdicts.total() >= 500
    assert min(verdicts[True], verdicts[False]) >= 100, verdicts
    print(f"agreed on {verdicts[True]} accepted and {verdicts[False]} refused manifests")
