"""Figures about the operator and its Federations, in Prometheus's form."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ..api.types import FederationStatus

PREFIX = "flower_operator"
SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

Statuses = Callable[[], Iterable[FederationStatus]]


class Metrics:
    def __init__(self, queued: Callable[[], int], statuses: Statuses) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.reconciles = self._counter("reconciles", "Federations looked at.")
        self.errors = self._counter("reconcile_errors", "Of these, how many failed.")
        self.seconds = Histogram(
            f"{PREFIX}_reconcile_seconds",
            "How long each took.",
            registry=self._registry,
            buckets=SECONDS,
        )
        self._requests = self._counter(
            "api_requests", "Requests to the API server; code 0: no answer.", ["method", "code"]
        )
        self._registry.register(_Federations(queued, statuses))

    def request(self, method: str, code: int) -> None:
        self._requests.labels(method, str(code)).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self._registry)


class _Federations(Collector):
    """Counted when asked for, not kept up to date at rest."""

    def __init__(self, queued: Callable[[], int], statuses: Statuses) -> None:
        self._queued = queued
        self._statuses = statuses

    def collect(self) -> Iterator[Metric]:
        conditions: Tally[tuple[str, str]] = Tally()
        counts: Tally[str] = Tally()
        for status in self._statuses():
            counts["federations"] += 1
            conditions.update((each.type, each.status) for each in status.conditions)
            counts["desired"] += status.desired_supernodes
            counts["ready"] += status.ready_supernodes
            counts["connected"] += status.connected_supernodes or 0
        yield GaugeMetricFamily(
            f"{PREFIX}_queue_length", "Federations waiting for a worker.", self._queued()
        )
        yield GaugeMetricFamily(f"{PREFIX}_federations", "Federations.", counts["federations"])
        by_condition = GaugeMetricFamily(
            f"{PREFIX}_federations_by_condition",
            "Federations by condition and its status.",
            labels=["condition", "status"],
        )
        for (kind, verdict), number in sorted(conditions.items()):
            by_condition.add_metric([kind, verdict], number)
        yield by_condition
        supernodes = GaugeMetricFamily(
            f"{PREFIX}_supernodes", "SuperNodes of all Federations by state.", labels=["state"]
        )
        for state in ("desired", "ready", "connected"):
            supernodes.add_metric([state], counts[state])
        yield supernodes
