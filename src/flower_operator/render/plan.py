"""render(): the whole of a Federation's objects, or everything that stands in their way."""

from dataclasses import dataclass
from typing import Any

from ..api.problems import InvalidFederation, Problem
from ..api.types import Federation, Pool
from ..flower.commands import ApiPorts
from ..flower.dialects import Dialect
from ..flower.node_config import unescaped
from ..trust.names import normal_name
from .admin_limits import limit_problems, pod_problems
from .envoy import Gateway
from .executor import Tasks, task_notices, task_problems
from .external import external_notices, external_objects, external_problems
from .facts import Facts
from .network import network_notices, network_policies, network_problems
from .node_config import MAX_FILES_BYTES, files_bytes, node_config_problems
from .persistence import claims, persistence_problems
from .pods import template_problems
from .releases import Releases, find_releases
from .secrets import key_problems
from .serverapp import serverapp_objects, superlink_tasks
from .skupper import skupper_objects
from .superlink import api_ports, superlink_gateway, superlink_objects
from .supernodes import pool_objects, pool_tasks, supernodes_service

Object = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What to run. The objects share parts with each other: read them, do not change them."""

    name: str
    """Of the Federation."""
    objects: tuple[Object, ...]
    releases: Releases
    notices: tuple[str, ...]
    """What was assumed or is left unused: no fault, but worth a user's look."""
    ports: ApiPorts
    """Of the SuperLink's pod."""
    gateway: Gateway | None = None
    """What stands in front of the SuperLink."""
    external: str | None = None
    """The address of a SuperLink that runs elsewhere."""


def render(federation: Federation, facts: Facts) -> Plan:
    """The objects that run a Federation. Raises InvalidFederation with every fault."""
    spec = federation.spec
    positions = range(len(spec.supernodes.pools))
    problems = [each for at in positions for each in node_config_problems(federation, at)]
    try:
        releases = find_releases(federation)
    except InvalidFederation as error:
        raise InvalidFederation([*error.problems, *problems]) from None
    problems += _name_problems(federation)
    problems += key_problems(federation)
    problems += _placement_problems(federation)
    problems += external_problems(federation)
    problems += limit_problems(federation, facts.limits)
    if not problems and spec.mode == "StatefulSet":
        problems = _size_problems(sum(files_bytes(federation, at) for at in positions))
    if problems:
        raise InvalidFederation(problems)
    external = spec.superlink.external
    superlink = [] if external else superlink_objects(federation, facts, releases)
    serverapp = serverapp_objects(federation, facts, releases)
    pools = [pool_objects(federation, at, facts, releases.pools[at]) for at in positions]
    problems = network_problems(federation)
    problems += _size_problems(sum(map(_files_size, pools)))
    if superlink:
        template = _template(superlink)
        problems += template_problems(template, claims(federation), "spec.superlink")
        problems += persistence_problems(federation, template, releases.superlink_dialect)
    if serverapp:
        problems += template_problems(_template(serverapp), [], "spec.superlink")
    for at, objects in enumerate(pools):
        problems += _pool_template_problems(federation, at, _template(objects))
    launching = _launching(federation, releases, [serverapp or superlink, *pools])
    problems += [each for one in launching for each in one.problems()]
    if facts.limits.restricted:
        problems += _beyond_restricted(federation, [superlink, serverapp], pools)
    if problems:
        raise InvalidFederation(problems)
    own = [
        objects
        for objects, pool in zip(pools, spec.supernodes.pools, strict=True)
        if pool.placement is None
    ]
    nodes = [each for objects in own for each in objects if runs(federation, each)]
    notices = [*releases.notices, *external_notices(federation), *_notices(federation)]
    notices += [each for one in launching for each in one.notices()]
    if not federation.spec.insecure:
        # Kubernetes knows no rights to some Secrets of a namespace.
        notices += [
            f"{each.tasks.where}.executor: kubernetes needs a right to list Secrets, so the "
            "SuperExec can read all of this namespace, the CA's key too"
            for each in launching
        ]
    notices += network_notices(federation, releases)
    # Policies first: no pod is to run before it is shut off.
    policies = network_policies(federation, facts, releases)
    names = supernodes_service(federation, facts)
    trusted = external_objects(federation, facts)
    links = skupper_objects(federation, facts, releases)
    return Plan(
        federation.name,
        (*policies, *superlink, *serverapp, *links, *names, *trusted, *nodes),
        releases,
        tuple(notices),
        api_ports(federation, releases),
        superlink_gateway(federation, releases),
        external.address if external else None,
    )


def _beyond_restricted(
    federation: Federation, superlink: list[list[Object]], pools: list[list[Object]]
) -> list[Problem]:
    spec = federation.spec
    problems = [
        problem
        for objects in superlink
        if objects
        for problem in pod_problems("spec.superlink", spec.superlink, _template(objects))
    ]
    for at, objects in enumerate(pools):
        where, pool = f"spec.supernodes.pools[{at}]", spec.supernodes.pools[at]
        problems += pod_problems(where, pool, _template(objects))
    return list(dict.fromkeys(problems))  # the SuperLink's two pods have one podTemplate


@dataclass(frozen=True)
class _Launching:
    """A part whose tasks are pods of their own."""

    tasks: Tasks
    objects: list[Object]
    patch: Object
    dialect: Dialect

    def problems(self) -> list[Problem]:
        (files,) = (
            each["data"]
            for each in self.objects
            if each["kind"] == "ConfigMap" and each["metadata"]["name"] == self.tasks.account
        )
        return task_problems(self.tasks, _template(self.objects), self.dialect, files)

    def notices(self) -> list[str]:
        return task_notices(self.tasks, _template(self.objects), self.patch, self.dialect)


def _launching(
    federation: Federation, releases: Releases, parts: list[list[Object]]
) -> list[_Launching]:
    spec = federation.spec
    pools = spec.supernodes.pools
    every = [superlink_tasks(federation), *(pool_tasks(federation, at) for at in range(len(pools)))]
    patches = [spec.superlink.pod_template, *(pool.pod_template for pool in pools)]
    dialects = [releases.serverapp_dialect, *(each.clientapp_dialect for each in releases.pools)]
    return [
        _Launching(tasks, objects, patch, dialect)
        for tasks, objects, patch, dialect in zip(every, parts, patches, dialects, strict=True)
        if tasks
    ]


def _files_size(objects: list[Object]) -> int:
    maps = [each["data"] for each in objects if each["kind"] == "ConfigMap"]
    return sum(len(text.encode()) for files in maps for text in files.values())


def _size_problems(size: int) -> list[Problem]:
    if size <= MAX_FILES_BYTES:
        return []
    message = (
        f"nodeConfig with {{partition}} and executor kubernetes need files of {size} bytes here, "
        f"and {MAX_FILES_BYTES} is the most; give pools fewer replicas or shorter texts"
    )
    return [Problem("spec.supernodes.pools", message)]


def _name_problems(federation: Federation) -> list[Problem]:
    spec = federation.spec
    names = {
        f"spec.tls.subjectAltNames[{at}]": name
        for at, name in enumerate(spec.tls.subject_alt_names)
    }
    if address := spec.superlink.service.external_address:
        names["spec.superlink.service.externalAddress"] = address
    problems = []
    for path, name in names.items():
        try:
            normal_name(name)
        except ValueError as error:
            problems.append(Problem(path, str(error)))
    return problems


def _placement_problems(federation: Federation) -> list[Problem]:
    """What the template of an addon would take for a variable of its own."""
    shared = [federation.spec.supernodes.env, federation.spec.network_policy.egress]
    return [
        Problem(
            f"spec.supernodes.pools[{at}]",
            f"has placement, so no text of it may hold '{{{{', as {text!r} does",
        )
        for at, pool in enumerate(federation.spec.supernodes.pools)
        if pool.placement
        for text in sorted(_texts([_with_unescaped(pool), *shared]))
        if "{{" in text
    ]


def _with_unescaped(pool: Pool) -> Object:
    """In its node config `{{name}}` is an escape, of which one brace is left."""
    config = {key: unescaped(value) for key, value in pool.node_config.items()}
    return pool.model_dump() | {"node_config": config}


def _texts(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        return _texts([*value.keys(), *value.values()])
    if isinstance(value, list):
        return set().union(*map(_texts, value))
    return set()


def _template(objects: list[Object]) -> Object:
    template: Object = objects[-1]["spec"]["template"]
    return template


def runs(federation: Federation, each: Object) -> bool:
    """A DaemonSet cannot be scaled to zero: while its Federation is suspended there is none."""
    return not federation.spec.suspend or each["kind"] != "DaemonSet"


def _pool_template_problems(federation: Federation, at: int, template: Object) -> list[Problem]:
    own = federation.spec.supernodes.pools[at].volume_claim_templates
    own = own if federation.spec.mode == "StatefulSet" else []
    return template_problems(template, own, f"spec.supernodes.pools[{at}]")


def _notices(federation: Federation) -> list[str]:
    notices = []
    for at, pool in enumerate(federation.spec.supernodes.pools):
        if federation.spec.mode == "DaemonSet" and pool.volume_claim_templates:
            path = f"spec.supernodes.pools[{at}].volumeClaimTemplates"
            notices.append(f"{path}: a DaemonSet has no claims of its own, they are left out")
    return notices
