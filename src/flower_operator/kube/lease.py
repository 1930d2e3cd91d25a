"""Which replica leads: a Lease that its holder renews and others wait for."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from .client import Client
from .errors import ApiError, NotLeader, Unreachable
from .resources import LEASE

log = logging.getLogger(__name__)

DURATION = 10
RENEW_EVERY = 2.0
# The holder stops this long before others may begin, however slowly its clock and last request go.
MARGIN = 2.0


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str
    resource_version: str | None = None


class _Lease(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    spec: _Spec
    api_version: str = LEASE.api_version
    kind: str = LEASE.kind


class Election:
    """One candidate for one Lease."""

    def __init__(
        self,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = LEASE.path(namespace, name)
        self._metadata = _Metadata(name, namespace)
        self._identity = identity
        self._clock = clock
        self._until = float("-inf")
        self._seen: tuple[str | None, str | None] | None = None
        self._seen_at = 0.0

    def remaining(self) -> float:
        """For how many seconds writes are surely ours alone."""
        return self._until - self._clock()

    async def acquire(self, client: Client) -> None:
        """Return when this candidate leads."""
        while not await self._attempt(client):
            await asyncio.sleep(RENEW_EVERY)

    async def keep(self, client: Client) -> None:
        """Renew until that fails for so long that another may lead; then raise NotLeader."""
        while (remaining := self.remaining()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await asyncio.sleep(RENEW_EVERY)
                    await self._attempt(client)
        raise NotLeader

    async def release(self, client: Client) -> None:
        """Let the next one lead at once."""
        if self.remaining() > 0:
            self._until = float("-inf")
            try:
                lease = await self._read(client)
                if lease and lease.spec.holder_identity == self._identity:
                    lease.spec.holder_identity = ""
                    await client.replace(LEASE, _plain(lease))
            except (ApiError, Unreachable) as error:
                log.warning("the Lease stays until it expires: %s", error)

    async def _attempt(self, client: Client) -> bool:
        """Take or renew the Lease if that is allowed; says whether it is ours."""
        started = self._clock()
        try:
            lease = await self._read(client)
            if lease is None:
                await client.create(LEASE, self._metadata.namespace, self._claim(None))
            elif self._may_take(lease.spec, started):
                await client.replace(LEASE, self._claim(lease))
            else:
                self._until = float("-inf")
                return False
        except (ApiError, Unreachable) as error:
            log.warning("cannot hold the Lease: %s", error)
            return False
        self._until = started + DURATION - MARGIN
        return True

    async def _read(self, client: Client) -> _Lease | None:
        try:
            return msgspec.json.decode(await client.get(self._path), type=_Lease)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def _may_take(self, spec: _Spec, now: float) -> bool:
        """Ours, or nobody's, or not renewed for its duration by our own clock."""
        if spec.holder_identity in (self._identity, "", None):
            return True
        if (seen := (spec.holder_identity, spec.renew_time)) != self._seen:
            # It may have been renewed just before the answer was sent, however long ago we asked.
            self._seen, self._seen_at = seen, self._clock()
        return now - self._seen_at > (spec.lease_duration_seconds or DURATION)

    def _claim(self, lease: _Lease | None) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = lease.spec if lease else _Spec(lease_transitions=-1)
        if spec.holder_identity != self._identity:
            spec.acquire_time = now
            spec.lease_transitions = (spec.lease_transitions or 0) + 1
        spec.holder_identity = self._identity
        spec.lease_duration_seconds = DURATION
        spec.renew_time = now
        return _plain(_Lease(lease.metadata if lease else self._metadata, spec))


def _plain(lease: _Lease) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(lease)
    return plain
