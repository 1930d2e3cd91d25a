"""Runs on Federations that are long enough for something to happen meanwhile."""

from collections.abc import Sequence
from pathlib import Path

from flower_operator.flower.releases import Release
from tests.cluster.federations import Namespace
from tests.harness.processes import ServerExitedError
from tests.harness.waiting import wait_for
from tests.local.machine import Document, federation
from tests.node.training import App, forwarded, roots_of

COMPLETED = "finished:completed"
FAILED = "finished:failed"
RUNNING = "running"


def plain(releases: Sequence[Release]) -> dict[Release, Document]:
    """A Federation of each release, with nothing that could be left out."""
    return {each: federation(f"fed-1-{each.minor}", str(each), "process") for each in releases}


class Flight:
    def __init__(
        self,
        namespace: Namespace,
        folder: Path,
        documents: dict[Release, Document],
        rounds: int = 3,
        pause: float = 6.0,
    ) -> None:
        self.namespace = namespace
        self.apps = {
            document["metadata"]["name"]: App(folder, release)
            for release, document in documents.items()
        }
        self._secure = not all(each["spec"].get("insecure", True) for each in documents.values())
        for document in documents.values():
            namespace.apply(document)
        for name, app in self.apps.items():
            namespace.wait_until_ready(name, timeout=120)
            with forwarded(namespace, f"{name}-superlink") as address:
                app.connect("cluster", address, self._roots(name))
                app.submit("cluster", "--run-config", f"rounds={rounds} pause={pause}")
        self.wait_until(RUNNING)

    def _roots(self, name: str) -> str | None:
        return roots_of(self.namespace, name) if self._secure else None

    def statuses(self, name: str) -> list[str]:
        app = self.apps[name]
        with forwarded(self.namespace, f"{name}-superlink") as address:
            app.connect("cluster", address, self._roots(name))
            return app.statuses("cluster")

    def wait_until(self, status: str, timeout: float = 300) -> None:
        """Until the runs have come to this."""
        # One may be over before another has begun.
        seen: dict[str, list[str]] = {name: [] for name in self.apps}

        def told(name: str) -> list[str]:
            try:
                return self.statuses(name)
            except (AssertionError, KeyError, ServerExitedError, TimeoutError) as error:
                return [f"the SuperLink does not say: {error!r}"]  # it may be restarting just now

        def reached() -> bool:
            missing = [name for name, each in seen.items() if each != [status]]
            seen.update({name: told(name) for name in missing})
            for name, each in seen.items():
                assert status == FAILED or FAILED not in each, self._story(name)
            return all(each == [status] for each in seen.values())

        wait_for(reached, lambda: f"the runs are not {status}: {seen}", timeout, interval=1)

    def wait_until_ready(self) -> None:
        # A SuperNode that had to be started several times is watched for a while before it counts.
        for name in self.apps:
            self.namespace.wait_until_ready(name, timeout=400)

    def wait_until_training(self, name: str) -> None:
        """Until all SuperNodes of a Federation have begun to pause, and none has answered yet.

        A restart of the SuperLink is at other times more than Flower can bear: what it is sent
        twice it refuses.
        """

        def pausing() -> bool:
            logs = [self._log(f"{name}-supernode-{pool}-0") for pool in ("north", "south")]
            return all(log.count("Received succ") > log.count("Sending:") for log in logs)

        def message() -> str:
            return f"{name} does not go on to the next round: {self.statuses(name)}"

        # They may be pausing already, for who knows how long yet.
        wait_for(lambda: not pausing(), message, timeout=120)
        wait_for(pausing, message, timeout=120)

    def _story(self, name: str) -> str:
        """What those said who have to do with a run, and what happened to them."""
        pods = [each["metadata"]["name"] for each in self.namespace.pods()]
        own = [each for each in pods if each.startswith((f"{name}-superlink", f"{name}-serverapp"))]
        told = [self.namespace.federation(name).get("status", {}).get("conditions")]
        options = ["--all-containers", "--prefix", "--timestamps", "--tail", "80"]
        for pod in own:
            command = ["logs", "--namespace", self.namespace.name, pod, *options]
            told.append(self.namespace.cluster.kubectl(*command).stdout)
        events = ["get", "events", "--namespace", self.namespace.name, "--sort-by=.lastTimestamp"]
        told.append(self.namespace.cluster.kubectl(*events).stdout)
        return "\n\n".join(map(str, told))

    def _log(self, pod: str) -> str:
        command = ["logs", "--namespace", self.namespace.name, pod, "--container", "supernode"]
        return self.namespace.cluster.kubectl(*command).stdout


def delete_pod(namespace: Namespace, name: str) -> None:
    path = f"/api/v1/namespaces/{namespace.name}/pods/{name}"
    status, answer = namespace.cluster.request("DELETE", path)
    assert status == 200, answer
