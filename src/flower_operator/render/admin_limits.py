"""What a cluster's administrator allows Federations: flags of the operator, not fields."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..api.problems import Problem
from ..api.types import Federation, IssuerRef, Pool, SuperLink
from ..trust.names import normal_name
from . import gpus
from .pod_security import breaches

Object = dict[str, Any]
REASON = "NotAllowed"
CERT_MANAGER = "cert-manager.io"
BEYOND = "this cluster allows Federations no more than Pod Security restricted"


@dataclass(frozen=True)
class Limits:
    """By default nothing is limited; an empty list allows everything."""

    task_executor: bool = True
    """Whether SuperExecs may start tasks as pods of their own."""
    restricted: bool = False
    """Whether pods must be what Pod Security calls restricted."""
    issuers: tuple[str, ...] = ()
    """KIND/NAME of issuers, or KIND.GROUP/NAME of those of another group; may have wildcards."""
    dns_suffixes: tuple[str, ...] = ()
    """Names, and names below them, that certificates of issuers may be for; or addresses."""
    annotation_prefixes: tuple[str, ...] = ()
    """What the keys of a Service's annotations may begin with."""


NO_LIMITS = Limits()


def limit_problems(federation: Federation, limits: Limits) -> list[Problem]:
    """What a manifest asks for and the administrator does not allow."""
    found = [*_executors(federation, limits), *_issuers(federation, limits)]
    found += [*_dns_names(federation, limits), *_annotations(federation, limits)]
    return [Problem(path, message, REASON) for path, message in found]


def pod_problems(where: str, part: SuperLink | Pool, template: Object) -> list[Problem]:
    """The fields that take a pod beyond restricted."""
    if isinstance(part, Pool) and gpus.needs_privilege(part.gpu):
        message = "AMD GPUs that are not requested need a privileged container"
        return [Problem(f"{where}.gpu.mountAll", f"{message}: {BEYOND}", REASON)]
    own_volumes = [f"volumes[{volume['name']}]" for volume in part.volumes]
    problems = []
    for field, message in breaches(template):
        own = field.removeprefix("spec.")
        path = own if own.startswith(tuple(own_volumes)) else f"podTemplate.{field}"
        problems.append(Problem(f"{where}.{path}", f"{message}: {BEYOND}", REASON))
    return problems


def _executors(federation: Federation, limits: Limits) -> Iterator[tuple[str, str]]:
    if limits.task_executor:
        return
    message = (
        "kubernetes is not allowed on this cluster; its administrator can allow it with "
        "taskExecutor.enable=true in the values of the operator's chart"
    )
    spec = federation.spec
    if spec.superlink.executor == "kubernetes":
        yield "spec.superlink.executor", message
    for at, pool in enumerate(spec.supernodes.pools):
        if pool.executor == "kubernetes":
            yield f"spec.supernodes.pools[{at}].executor", message


def _issuers(federation: Federation, limits: Limits) -> Iterator[tuple[str, str]]:
    issuer = federation.spec.tls.issuer_ref
    if issuer is None or not limits.issuers:
        return
    name = _issuer_name(issuer)
    if not any(fnmatchcase(name, allowed) for allowed in limits.issuers):
        yield (
            "spec.tls.issuerRef",
            f"{name} is not allowed on this cluster; allowed: {_list(limits.issuers)}",
        )


def _dns_names(federation: Federation, limits: Limits) -> Iterator[tuple[str, str]]:
    """Names for which an issuer is asked; a Federation's own CA may sign any, nobody trusts it."""
    spec = federation.spec
    if spec.tls.issuer_ref is None:
        return
    names = {
        f"spec.tls.subjectAltNames[{at}]": name
        for at, name in enumerate(spec.tls.subject_alt_names)
    }
    if address := spec.superlink.service.external_address:
        names["spec.superlink.service.externalAddress"] = address
    for path, name in names.items():
        if not may_be_certified(name, limits):
            yield (
                path,
                f"{name} is not allowed in a certificate of {_issuer_name(spec.tls.issuer_ref)} on "
                f"this cluster; allowed: {_list(limits.dns_suffixes)}, and names below them",
            )


def _annotations(federation: Federation, limits: Limits) -> Iterator[tuple[str, str]]:
    if not limits.annotation_prefixes:
        return
    for key in federation.spec.superlink.service.annotations:
        if not key.startswith(limits.annotation_prefixes):
            yield (
                "spec.superlink.service.annotations",
                f"{key} is not allowed on this cluster; allowed is what begins with "
                f"{_list(limits.annotation_prefixes)}",
            )


def may_be_certified(name: str, limits: Limits) -> bool:
    """Whether an issuer may be asked for a name or an address that a Federation brings."""
    if not limits.dns_suffixes:
        return True
    try:
        plain = normal_name(name)
    except ValueError:
        return False
    suffixes = [suffix.lower().strip(".") for suffix in limits.dns_suffixes]
    return any(plain == suffix or plain.endswith(f".{suffix}") for suffix in suffixes)


def _issuer_name(issuer: IssuerRef) -> str:
    group = "" if issuer.group == CERT_MANAGER else f".{issuer.group}"
    return f"{issuer.kind}{group}/{issuer.name}"


def _list(texts: Iterable[str]) -> str:
    return ", ".join(texts)
