"""Starts SuperNodes again that wait for a SuperLink which does not know them any more."""

import msgspec

from ..kube.client import Client
from ..kube.resources import POD
from ..render.metadata import FEDERATION_LABEL, MANAGED_BY, MANAGER
from ..status.observed import PodForm
from .caches import Key
from .tasks import delete
from .transitions import Transition


class _Pods(msgspec.Struct):
    items: list[PodForm] | None = None


async def pods_of(client: Client, key: Key) -> list[PodForm]:
    """All of a Federation's pods; of those that are well, the caches keep nothing."""
    namespace, name = key
    select = f"{MANAGED_BY}={MANAGER},{FEDERATION_LABEL}={name}"
    answer = await client.get(POD.path(namespace), labelSelector=select)
    return msgspec.json.decode(answer, type=_Pods).items or []


async def start_again(client: Client, pods: tuple[PodForm, ...]) -> list[Transition]:
    told = []
    for pod in pods:
        metadata = pod.metadata
        await delete(client, POD, metadata.namespace, metadata.name, metadata.uid)
        message = f"pod {metadata.name} is started again: it waits for a SuperLink that is gone"
        told.append(Transition("SuperNodeStranded", message, warning=True))
    return told
