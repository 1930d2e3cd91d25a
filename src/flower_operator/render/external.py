"""A SuperLink that runs elsewhere: what its SuperNodes trust, and what it leaves unused."""

from typing import Any

from ..api.problems import Problem
from ..api.types import Federation, SuperLink, Tls
from ..trust.layout import BUNDLE_FILE
from ..trust.records import split_bundle
from .facts import Facts
from .metadata import namespace_of, supernode_labels
from .secrets import authority_name

Object = dict[str, Any]


def external_objects(federation: Federation, facts: Facts) -> list[Object]:
    """The certificates that SuperNodes mount, where they speak TLS."""
    external = federation.spec.superlink.external
    if federation.spec.insecure or external is None:
        return []
    metadata = {
        "name": authority_name(federation),
        "namespace": namespace_of(federation, facts),
        "labels": supernode_labels(federation),
    }
    # Nothing else: a key that was pasted with them would be anyone's to read.
    certificates = "".join(split_bundle(external.ca or "").values())
    data = {BUNDLE_FILE: certificates}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}]


def external_problems(federation: Federation) -> list[Problem]:
    external = federation.spec.superlink.external
    if external is None or external.ca is None:
        return []
    found = split_bundle(external.ca)
    if found and all(found):
        return []
    message = "holds no certificate that can be read; write it as PEM, BEGIN and END lines too"
    return [Problem("spec.superlink.external.ca", message)]


def external_notices(federation: Federation) -> list[str]:
    """What is said of a SuperLink of one's own, and there is none."""
    spec = federation.spec
    if spec.superlink.external is None:
        return []
    unused = [f"spec.superlink.{each}" for each in _given(spec.superlink, {"external"})]
    unused += [f"spec.tls.{each}" for each in _given(spec.tls, {"rotation"})]
    unused += ["spec.networkPolicy.controlFrom"] if spec.network_policy.control_from else []
    return [f"{each}: has no effect with spec.superlink.external" for each in unused]


def _given(part: SuperLink | Tls, used: set[str]) -> list[str]:
    """The fields of a part that are not as they are if not set."""
    return [
        field.alias or name
        for name, field in type(part).model_fields.items()
        if name not in used and getattr(part, name) != field.default
    ]
