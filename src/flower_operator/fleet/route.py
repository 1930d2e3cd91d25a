"""How SuperNodes of other clusters reach a SuperLink, or what keeps them from it."""

from collections.abc import Sequence

from ..status.outline import Exposure
from .addon import Route

SERVICE = "spec.superlink.service"


def linked_route(superlink: str, exposure: Exposure) -> Route:
    """Over Skupper, whose Listeners have the name of the SuperLink's Service."""
    return Route(superlink, exposure.port)


def route_of(
    exposure: Exposure, addresses: Sequence[str], node_port: int | None
) -> Route | tuple[str, str]:
    """The route, or a reason and what to do about it. `addresses`: those that the Service says it
    has; `node_port`: the one that it was given."""
    host = exposure.address
    if exposure.service_type == "NodePort":
        if host is None:
            return "NoAddress", (
                f"other clusters cannot know the nodes of this one: name one of them, or what "
                f"stands before them, as {SERVICE}.externalAddress"
            )
        port = exposure.node_port or node_port
        return Route(host, port) if port else ("NoAddress", "the Service has no node port yet")
    if exposure.service_type == "LoadBalancer" and host is None:
        if not addresses:
            return "NoAddress", "the load balancer of the SuperLink's Service has no address yet"
        host = addresses[0]
    if host is None:
        return "NoAddress", (
            f"other clusters cannot reach the SuperLink: make {SERVICE}.type NodePort or "
            f"LoadBalancer, or say as {SERVICE}.externalAddress how it is reached"
        )
    return Route(host, exposure.port)
