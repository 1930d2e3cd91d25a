"""Clears away what flwr's Kubernetes executor made and nobody will: it gives its pods and Secrets
no owner, and each SuperExec looks after its own only for as long as it runs."""

from collections.abc import Iterable

from ..flower.tasks import POD_PREFIX, secret_of
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import POD, SECRET, Resource
from ..render.metadata import CLIENTAPP, SERVERAPP
from ..status.observed import TASKS, Pod
from ..status.outline import Outline


def left_over(pods: Iterable[Pod], outline: Outline | None) -> list[Pod]:
    """The tasks whose SuperExec is gone: with its Federation, its pool or its replica, or because
    it now runs tasks as subprocesses. No outline: there is no Federation."""
    tasks = [pod for pod in pods if pod.component in TASKS and pod.name.startswith(POD_PREFIX)]
    return [task for task in tasks if outline is None or not _is_looked_after(task, outline)]


async def clear_away(client: Client, tasks: Iterable[Pod]) -> None:
    for task in tasks:
        # The Secret first: as long as the pod is there, it will be tried again.
        await delete(client, SECRET, task.namespace, secret_of(task.name), None)
        await delete(client, POD, task.namespace, task.name, task.uid)


def _is_looked_after(task: Pod, outline: Outline) -> bool:
    if task.component == SERVERAPP:
        return outline.launches_pods
    return task.component == CLIENTAPP and any(
        pool.launches_pods
        and pool.name == task.pool
        and task.index.isdecimal()
        and int(task.index) < (pool.replicas or 0)
        for pool in outline.pools
    )


async def delete(
    client: Client, resource: Resource, namespace: str, name: str, uid: str | None
) -> None:
    """Delete what is there; that it is not is as good."""
    try:
        await client.delete(resource, namespace, name, uid, "Background")
    except ApiError as error:
        if error.code not in (404, 409):  # gone, or another one of that name by now
            raise
