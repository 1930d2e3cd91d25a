"""What is wrong with a pod, in words that a person can act on."""

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec

Struct = msgspec.Struct

IMAGE_REASONS = {
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
}
CONFIG_REASONS = {
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "StartError",
}
# The kubelet waits 10 s, 20 s, ... up to 5 min before it starts a failing container again. One
# that has run for as long as its next wait would be is taken to be well again.
FIRST_BACKOFF = 10.0
LONGEST_BACKOFF = 300.0
LONGEST_WORDS = 400
# What a release of flwr says of flags of another one.
UNKNOWN_ARGUMENTS = re.compile(
    r"unrecognized arguments: |arguments are required: |no longer supported|No such option"
)


class Trouble(Struct, frozen=True):
    reason: str
    message: str
    until: float | None = None
    """When it will be over, as seconds of the epoch, unless it happens again."""


def refuses_arguments(trouble: Trouble, container: str) -> bool:
    """Whether this container ended because it does not know how it was started."""
    own = trouble.message.startswith(f"container {container} ended ")
    return own and UNKNOWN_ARGUMENTS.search(trouble.message) is not None


class _Waiting(Struct):
    reason: str = ""
    message: str = ""


class _Running(Struct, rename="camel"):
    started_at: str | None = None


class _Terminated(Struct, rename="camel"):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class _State(Struct):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(Struct, rename="camel"):
    name: str
    image: str = ""
    restart_count: int = 0
    state: _State = msgspec.field(default_factory=_State)
    last_state: _State = msgspec.field(default_factory=_State)

    @property
    def has_run(self) -> bool:
        states = (self.state, self.last_state)
        return any(each.running or each.terminated for each in states) or self.restart_count > 0


class _PodCondition(Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[_PodCondition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None

    @property
    def has_run(self) -> bool:
        return any(each.has_run for each in self.container_statuses or ())


def troubles_of(pod: PodStatus, node: str) -> Iterator[Trouble]:
    """What keeps a pod from its work, or kept it from it a while ago; `node`: where it is, if
    anywhere yet."""
    if pod.phase == "Failed" and pod.reason:  # the node put it out
        yield Trouble(pod.reason, pod.message or "the pod was ended by its node")
    for condition in pod.conditions or ():
        # A scheduler that had no answer tries again, and may be told of its own success as of a
        # failure: whoever has a node was scheduled.
        if condition.type == "PodScheduled" and condition.status == "False" and not node:
            yield Trouble("Unschedulable", condition.message or condition.reason)
    for init in pod.init_container_statuses or ():
        ended = init.state.terminated
        if ended is None or ended.exit_code != 0:
            yield from _container_troubles(init)
    for container in pod.container_statuses or ():
        yield from _container_troubles(container)


def running_since(pod: PodStatus, container: str) -> float | None:
    """As seconds of the epoch; None while it does not run."""
    for each in pod.container_statuses or ():
        if each.name == container and each.state.running and each.state.running.started_at:
            return seconds_of(each.state.running.started_at)
    return None


def _container_troubles(container: _ContainerStatus) -> Iterator[Trouble]:
    state = container.state
    where = f"container {container.name}"
    if state.waiting and state.waiting.reason in IMAGE_REASONS:
        yield Trouble("ImageNotPullable", f"{where}: {_pull_failure(container)}")
    elif state.waiting and state.waiting.reason in CONFIG_REASONS:
        yield Trouble("ContainerNotStarted", f"{where}: {state.waiting.message}")
    elif ended := state.terminated or container.last_state.terminated:
        reason = "OutOfMemory" if ended.reason == "OOMKilled" else "CrashLoop"
        yield Trouble(reason, f"{where} {_end(ended)}", _steady_at(container))


def _pull_failure(container: _ContainerStatus) -> str:
    """The same words while the kubelet pulls and while it waits to pull again."""
    message = container.state.waiting.message if container.state.waiting else ""
    detail = re.sub(r'^Back-off pulling image "[^"]*"(: \w+: )?', "", message)
    text = f"image {container.image} cannot be pulled"
    return f"{text}: {detail}" if detail else text


def _end(ended: _Terminated) -> str:
    if ended.reason == "OOMKilled":
        return "was killed: it used more memory than its limit; raise its resources.limits.memory"
    text = f"ended with exit code {ended.exit_code}"
    last_words = " ".join(ended.message.split())
    if len(last_words) > LONGEST_WORDS:  # what it was about comes last
        last_words = f"...{last_words[-LONGEST_WORDS:]}"
    return f"{text}: {last_words}" if last_words else text


def _steady_at(container: _ContainerStatus) -> float | None:
    running = container.state.running
    if not running or not running.started_at:
        return None
    wait = min(FIRST_BACKOFF * 2.0 ** min(container.restart_count, 10), LONGEST_BACKOFF)
    return seconds_of(running.started_at) + wait


def seconds_of(time: str | None) -> float:
    """Of the epoch, a time that the API server tells."""
    return datetime.fromisoformat(time).timestamp() if time else 0.0
