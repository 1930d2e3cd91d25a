"""What an administrator does not allow is refused, whoever asks, and the field is named."""

from typing import Any

import pytest

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.render import Facts, render
from flower_operator.render.admin_limits import Limits
from scripts.manifests import examples
from tests.harness.pod_security import BEYOND, POOL, WITHIN
from tests.unit.federations import Document, document

RESTRICTED = Limits(restricted=True)


def refused(limits: Limits, **fields: Any) -> list[str]:
    """What the operator says if it refuses a manifest for its limits."""
    manifest = parse(document(**fields))
    assert render(manifest, Facts()).objects
    try:
        render(manifest, Facts(limits=limits))
    except InvalidFederation as error:
        assert {problem.reason for problem in error.problems} == {"NotAllowed"}
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize("field", BEYOND)
def test_a_pod_beyond_restricted_is_refused_and_the_field_is_named(field: str) -> None:
    (message,) = refused(RESTRICTED, pool={"podTemplate": BEYOND[field]})
    assert message.startswith(f"{field}: must ")
    assert message.endswith("this cluster allows Federations no more than Pod Security restricted")


@pytest.mark.parametrize("template", WITHIN)
def test_what_is_restricted_passes(template: Document) -> None:
    assert refused(RESTRICTED, pool={"podTemplate": template}) == []


def test_volumes_and_gpus_are_named_where_they_were_written() -> None:
    volume = {"name": "data", "hostPath": {"path": "/data"}}
    link = {"superlink": {"volumes": [volume]}, "pool": {"volumes": [volume]}}
    messages = refused(RESTRICTED, **link)
    assert [message.partition(": ")[0] for message in messages] == [
        "spec.superlink.volumes[data].hostPath",
        f"{POOL}.volumes[data].hostPath",
    ]
    (message,) = refused(RESTRICTED, pool={"gpu": {"mountAll": True, "vendor": "amd"}})
    assert message.startswith(f"{POOL}.gpu.mountAll: ")
    assert refused(RESTRICTED, pool={"gpu": {"mountAll": True, "vendor": "nvidia"}}) == []


def test_the_superlinks_template_is_named_once_although_two_pods_have_it() -> None:
    superlink = {
        "persistence": {"size": "1Gi"},
        "podTemplate": {"spec": {"hostNetwork": True}},
    }
    (message,) = refused(RESTRICTED, isolation="process", superlink=superlink)
    assert message.startswith("spec.superlink.podTemplate.spec.hostNetwork: ")


def test_every_example_is_restricted() -> None:
    for federations in examples().values():
        for federation in federations:
            assert render(federation, Facts(limits=RESTRICTED)).objects


def asks(kind: str = "ClusterIssuer", group: str = "cert-manager.io", **tls: Any) -> Document:
    issuer = {"name": "production", "kind": kind, "group": group}
    return {"insecure": False, "tls": {"issuerRef": issuer, **tls}}


@pytest.mark.parametrize(
    ("allowed", "fields", "name"),
    [
        (["ClusterIssuer/internal"], asks(), "ClusterIssuer/production"),
        (["Issuer/*"], asks(), "ClusterIssuer/production"),
        (["ClusterIssuer/prod*"], asks(), None),
        (["Issuer/*", "ClusterIssuer/production"], asks(), None),
        (["Issuer/*"], asks("Issuer"), None),
        (["Issuer/*"], asks("Issuer", "acme.example"), "Issuer.acme.example/production"),
        (["Issuer.acme.example/*"], asks("Issuer", "acme.example"), None),
        (["Issuer/*"], {"insecure": False}, None),
    ],
)
def test_only_these_issuers_may_be_asked(
    allowed: list[str], fields: Document, name: str | None
) -> None:
    messages = refused(Limits(issuers=tuple(allowed)), **fields)
    if name is None:
        assert messages == []
    else:
        (message,) = messages
        assert message.startswith(f"spec.tls.issuerRef: {name} is not allowed on this cluster; ")
        assert allowed[0] in message


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("fl.example.org", True),
        ("lab.fl.example.org", True),
        ("LAB.fl.Example.org.", True),
        ("*.fl.example.org", True),
        ("bank.example", False),
        ("evilfl.example.org", False),
        ("example.org", False),
        ("10.0.0.7", True),
        ("10.0.0.8", False),
    ],
)
def test_issuers_may_be_asked_for_these_names_only(name: str, allowed: bool) -> None:
    limits = Limits(dns_suffixes=("fl.example.org", "10.0.0.7"))
    messages = refused(limits, **asks(subjectAltNames=[name]))
    assert bool(messages) != allowed
    if not allowed:
        (message,) = messages
        assert message.startswith(f"spec.tls.subjectAltNames[0]: {name} is not allowed in ")
    # Nobody trusts a Federation's own CA but its SuperNodes.
    own = {"insecure": False, "tls": {"subjectAltNames": [name]}}
    assert refused(limits, **own) == []


def test_the_address_that_other_clusters_use_is_such_a_name() -> None:
    service = {"externalAddress": "bank.example"}
    (message,) = refused(
        Limits(dns_suffixes=("example.org",)), superlink={"service": service}, **asks()
    )
    assert message.startswith("spec.superlink.service.externalAddress: bank.example is not ")


def test_what_is_no_name_at_all_is_refused_as_before() -> None:
    manifest = parse(document(**asks(subjectAltNames=["not a name"])))
    with pytest.raises(InvalidFederation, match="neither a DNS name nor an IP address"):
        render(manifest, Facts(limits=Limits(dns_suffixes=("example.org",))))


def test_annotations_of_the_service_begin_with_what_is_allowed() -> None:
    limits = Limits(annotation_prefixes=("metallb.io/", "service.example.org/internal"))
    annotations = {"metallb.io/pool": "a", "service.example.org/internal": "true"}
    assert refused(limits, superlink={"service": {"annotations": annotations}}) == []
    annotations["external-dns.alpha.kubernetes.io/hostname"] = "bank.example"
    (message,) = refused(limits, superlink={"service": {"annotations": annotations}})
    assert message.startswith(
        "spec.superlink.service.annotations: external-dns.alpha.kubernetes.io/hostname is not "
    )
