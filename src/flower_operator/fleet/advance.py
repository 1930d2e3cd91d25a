"""A changed Flower release on other clusters: which of them follow it next.

The first few do, the others when these are done; where too many fail, nobody else.
"""

from dataclasses import dataclass
from datetime import datetime

from ..api.types import Rollout
from .rollout import allowed_failures, share_of


@dataclass(frozen=True)
class Site:
    """A pool on one cluster."""

    cluster: str
    release: str
    """What it was told to run; none, if it is yet to be told anything."""
    settled: bool = False
    """Whether exactly that runs, and is ready."""
    since: datetime | None = None
    """When it was told."""
    lost: bool = False


@dataclass(frozen=True)
class Advance:
    """A pool on all its clusters, on its way to a release."""

    pool: str
    release: str
    rollout: Rollout
    sites: tuple[Site, ...] = ()

    @property
    def joining(self) -> tuple[Site, ...]:
        return tuple(site for site in self.sites if not site.release)

    @property
    def behind(self) -> tuple[Site, ...]:
        return tuple(site for site in self.sites if site.release not in ("", self.release))

    def working(self, now: datetime) -> tuple[Site, ...]:
        """Those that were told and are not there yet, as far as they are waited for."""
        return tuple(site for site in self._unsettled if not self._is_late(site, now))

    def failed(self, now: datetime) -> tuple[Site, ...]:
        return tuple(site for site in self._unsettled if self._is_late(site, now))

    def _is_late(self, site: Site, now: datetime) -> bool:
        return site.since is not None and now >= site.since + self.rollout.deadline

    @property
    def _unsettled(self) -> tuple[Site, ...]:
        told = (site for site in self.sites if site.release == self.release)
        return tuple(site for site in told if not site.settled and not site.lost)

    def deadline(self, now: datetime) -> datetime | None:
        """When the next of them will have failed."""
        times = [site.since for site in self.working(now) if site.since]
        return min(times) + self.rollout.deadline if times else None

    def stopped(self, now: datetime) -> bool:
        return len(self.failed(now)) > allowed_failures(self.rollout, len(self.sites))

    def following(self, now: datetime) -> tuple[Site, ...]:
        """Who is next. Nobody waits for those that are lost: they are told last, all at once."""
        if self.stopped(now):
            return ()
        most = max(share_of(self.rollout.max_concurrency, len(self.sites)), 1)
        room = max(most - len(self.working(now)), 0)
        there = [site for site in self.behind if not site.lost]
        return tuple(there[:room]) if there else self.behind
