"""The logs of a Federation's pods: what is there, or on and on as it is written."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from ..kube.client import Client
from ..kube.errors import ApiError, Unreachable
from ..kube.logs import read_log
from .errors import ClusterError
from .federations import Federation
from .following import following
from .pods import Meant, Pod, matching

# Between attempts to read on, where nothing has told that it is worth one.
PAUSE_SECONDS = 1.0

Put = Callable[[str, bytes], None]
"""Takes a line and whose it is."""


async def read_logs(
    client: Client, meant: Meant, put: Put, tell: Callable[[str], None], *, previous: bool
) -> None:
    """What each container has written so far; `tell` hears of those that have not begun."""
    for pod, containers in meant:
        for container in containers:
            title = f"{pod.title}/{container}"
            namespace = pod.metadata.namespace
            log = read_log(client, namespace, pod.name, container, previous=previous)
            try:
                async with aclosing(log) as lines:
                    async for _, line in lines:
                        put(title, line)
            except ApiError as error:
                if error.code not in (400, 404):
                    raise
                tell(f"{title}: {error}")


async def follow_logs(
    client: Client, federation: Federation, component: str | None, put: Put
) -> None:
    """Every line as it is written, of pods that come later too, until the Federation is gone."""
    namespace, name = federation.metadata.namespace, federation.name
    async with following(client, namespace, name) as found:
        try:
            async with asyncio.TaskGroup() as group:
                follower = _Follower(client, component, put, group)
                async for current, pods in found.views():
                    follower.look(pods)
                    if current is None and not pods:
                        break
                follower.end()
        except BaseExceptionGroup as errors:  # one that may not be read is the end of all
            raise errors.exceptions[0] from None


class _Follower:
    """Reads several logs at once."""

    def __init__(
        self, client: Client, component: str | None, put: Put, group: asyncio.TaskGroup
    ) -> None:
        self._client = client
        self._component = component
        self._put = put
        self._group = group
        self._pods: dict[str, Pod] = {}
        self._news = asyncio.Event()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def look(self, pods: list[Pod]) -> None:
        """Begin with every container that is new."""
        self._pods = {pod.metadata.uid: pod for pod in pods}
        self._news.set()
        self._news = asyncio.Event()
        try:
            meant = matching(pods, self._component)
        except ClusterError:
            return  # it may come yet
        for pod, containers in meant:
            for container in containers:
                key = (pod.metadata.uid, container)
                if key not in self._tasks:
                    self._tasks[key] = self._group.create_task(self._follow(pod, container))

    def end(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _follow(self, pod: Pod, container: str) -> None:
        """A log ends with its container, or with the connection: then on with what came after."""
        title, after = f"{pod.title}/{container}", ""
        namespace, uid = pod.metadata.namespace, pod.metadata.uid
        read: tuple[int, bool] | None = None
        while current := self._pods.get(uid):
            news, state = self._news, current.state_of(container)
            if state == read and not state[1]:
                await news.wait()
                continue
            read = state
            try:
                log = read_log(
                    self._client, namespace, pod.name, container, follow=True, after=after
                )
                async with aclosing(log) as lines:
                    async for after, line in lines:  # noqa: B007 (the last one counts)
                        self._put(title, line)
            except Unreachable:
                read = None
            except ApiError as error:
                if error.final and error.code not in (400, 404):
                    raise
            await asyncio.sleep(PAUSE_SECONDS)
