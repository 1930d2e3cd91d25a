"""What of a Federation over many clusters follows from its manifest alone."""

from dataclasses import replace

from ..api.problems import InvalidFederation, Problem
from ..api.types import Federation
from ..render import Facts, Plan, render
from ..render.facts import Numbers
from ..render.secrets import site_authority_name
from ..status.outline import Exposure, Outline, outline_of
from .addon import Route, addon_objects
from .partitions import allocate, total
from .route import SERVICE, linked_route, route_of


def render_fleet(federation: Federation, facts: Facts, bundle: str | None) -> Plan:
    """The objects of the hub, and those that all clusters of a pool share, as they are before the
    first cluster joins. `bundle`: the CA's certificates, if they are at hand. Raises
    InvalidFederation."""
    facts = replace(facts, numbers=_first_numbers(federation))
    plan = render(federation, facts)
    outline = outline_of(federation, plan, facts)
    if outline.exposure is None:
        return plan
    if outline.interconnected:
        route = linked_route(outline.superlink, outline.exposure)
    else:
        route = _route(outline.exposure)
    shared = [
        each
        for pool in outline.placed
        for each in addon_objects(federation, pool.position, facts, plan.releases, route, bundle)
    ]
    notices = [*plan.notices, *_notices(federation, outline, bundle)]
    return replace(plan, objects=(*plan.objects, *shared), notices=tuple(notices))


def _first_numbers(federation: Federation) -> Numbers:
    own = [pool for pool in federation.spec.supernodes.pools if pool.placement is None]
    partitions = allocate({}, {(pool.name, ""): pool.replicas or 0 for pool in own})
    given = tuple((pool.name, tuple(map(str, partitions[pool.name, ""]))) for pool in own)
    return Numbers(given, str(total(partitions)))


def _route(exposure: Exposure) -> Route:
    found = route_of(exposure, (), None)
    if isinstance(found, Route):
        return found
    _, reason = found
    remedy = "externalAddress, and nodePorts.grpc where type is NodePort"
    raise InvalidFederation([Problem(SERVICE, f"{reason}; to know it without a cluster: {remedy}")])


def _notices(federation: Federation, outline: Outline, bundle: str | None) -> list[str]:
    notices = []
    if outline.secure and bundle is None:
        names = [site_authority_name(federation.name, pool.name) for pool in outline.placed]
        notices.append(
            f"ConfigMap {', '.join(names)} of other clusters is left out: the operator puts it in "
            "when it has made the CA; --ca FILE does so now"
        )
    if outline.interconnected:
        notices.append(
            "what lets other clusters link by Skupper is left out: the operator puts it in when "
            "Skupper has granted access"
        )
    return notices
