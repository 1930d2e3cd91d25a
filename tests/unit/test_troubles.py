"""What is wrong with a pod, in words that a person can act on."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flower_operator.status.observed import Pod, PodForm, pod_of
from flower_operator.status.troubles import PodStatus, Trouble, troubles_of
from tests.unit.federations import Document

STARTED = "2026-11-15T12:00:00Z"
STARTED_SECONDS = datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()
PULL = (
    "failed to pull and unpack image: failed to resolve reference: pull access denied, "
    "repository does not exist or may require authorization"
)


def troubles(status: Document, node: str = "") -> list[Trouble]:
    form = msgspec.json.decode(msgspec.json.encode(status), type=PodStatus)
    return list(troubles_of(form, node))


def container(state: Document, last: Document | None = None, restarts: int = 0) -> Document:
    return {
        "name": "supernode",
        "image": "flwr/supernode:1.25.0",
        "imageID": "",
        "ready": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }


def with_container(state: Document, last: Document | None = None, restarts: int = 0) -> Document:
    return {"phase": "Running", "containerStatuses": [container(state, last, restarts)]}


def waiting(reason: str, message: str = "") -> Document:
    return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}


def terminated(code: int, reason: str = "Error", message: str = "") -> Document:
    ended: Document = {"exitCode": code, "reason": reason, "startedAt": None, "finishedAt": None}
    return {"terminated": {**ended, "message": message} if message else ended}


RUNNING: Document = {"running": {"startedAt": STARTED}}
BACK_OFF = waiting("CrashLoopBackOff", "back-off 40s restarting failed container=supernode pod=x")


@pytest.mark.parametrize(
    ("status", "has_run"),
    [
        (with_container(waiting("ImagePullBackOff")), False),
        ({"phase": "Pending"}, False),
        (with_container(RUNNING), True),
        (with_container(BACK_OFF, terminated(1)), True),
        (with_container(waiting("ImagePullBackOff"), restarts=1), True),
    ],
)
def test_whether_a_pod_has_ever_run(status: Document, has_run: bool) -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(status), type=PodStatus)
    assert decoded.has_run == has_run


def test_a_running_pod_has_no_troubles() -> None:
    scheduled = {"type": "PodScheduled", "status": "True"}
    ready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    assert troubles({**with_container(RUNNING), "conditions": [scheduled, ready]}) == []


@pytest.mark.parametrize("status", [{}, {"phase": "Pending"}, {"containerStatuses": None}])
def test_a_pod_of_which_nothing_is_known_yet_has_no_troubles(status: Document) -> None:
    assert troubles(status) == []


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_container_that_is_being_made_is_no_trouble(reason: str) -> None:
    assert troubles(with_container(waiting(reason))) == []


def test_pulling_and_waiting_to_pull_again_are_told_in_the_same_words() -> None:
    pulling = waiting("ErrImagePull", PULL)
    backing_off = waiting(
        "ImagePullBackOff",
        f'Back-off pulling image "flwr/supernode:1.25.0": ErrImagePull: {PULL}',
    )
    (trouble,) = troubles(with_container(pulling))
    assert [trouble] == troubles(with_container(backing_off))
    assert trouble.reason == "ImageNotPullable"
    assert trouble.until is None
    assert trouble.message == (
        f"container supernode: image flwr/supernode:1.25.0 cannot be pulled: {PULL}"
    )


def test_an_older_kubelet_that_gives_no_cause_still_names_the_image() -> None:
    status = with_container(
        waiting("ImagePullBackOff", 'Back-off pulling image "flwr/supernode:1.25.0"')
    )
    (trouble,) = troubles(status)
    assert trouble.message == "container supernode: image flwr/supernode:1.25.0 cannot be pulled"


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull", "ImageInspectError"])
def test_images_that_can_never_be_had(reason: str) -> None:
    (trouble,) = troubles(with_container(waiting(reason, "no such thing")))
    assert trouble.reason == "ImageNotPullable"
    assert "no such thing" in trouble.message


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError"])
def test_a_container_that_cannot_be_made(reason: str) -> None:
    (trouble,) = troubles(with_container(waiting(reason, 'secret "fed-ca" not found')))
    assert trouble == Trouble(
        "ContainerNotStarted", 'container supernode: secret "fed-ca" not found'
    )


def test_a_crash_loop_is_told_with_the_last_words() -> None:
    last_words = "Traceback:\n  File x\nRuntimeError: port in use\n"
    status = with_container(BACK_OFF, terminated(1, message=last_words), restarts=4)
    assert troubles(status) == [
        Trouble(
            "CrashLoop",
            "container supernode ended with exit code 1: "
            "Traceback: File x RuntimeError: port in use",
        )
    ]


def test_a_crash_is_told_in_the_same_words_before_and_while_the_kubelet_waits() -> None:
    ended = troubles(with_container(terminated(1, message="no\n"), terminated(1), restarts=1))
    waits = troubles(with_container(BACK_OFF, terminated(1, message="no\n"), restarts=2))
    assert ended == waits


def test_a_container_without_last_words() -> None:
    (trouble,) = troubles(with_container(BACK_OFF, terminated(137)))
    assert trouble.message == "container supernode ended with exit code 137"


@pytest.mark.parametrize("state", [BACK_OFF, terminated(137, "OOMKilled"), RUNNING])
def test_too_little_memory_says_what_to_raise(state: Document) -> None:
    (trouble,) = troubles(with_container(state, terminated(137, "OOMKilled"), restarts=1))
    assert trouble.reason == "OutOfMemory"
    assert "resources.limits.memory" in trouble.message


@pytest.mark.parametrize(
    ("restarts", "seconds"), [(0, 10), (1, 20), (2, 40), (4, 160), (5, 300), (5000, 300)]
)
def test_a_container_that_runs_again_is_well_when_it_lasts_longer_than_its_next_wait(
    restarts: int, seconds: float
) -> None:
    (trouble,) = troubles(with_container(RUNNING, terminated(1), restarts))
    assert trouble.reason == "CrashLoop"
    assert trouble.until == STARTED_SECONDS + seconds


@pytest.mark.parametrize("running", [{}, {"startedAt": None}], ids=["not given", "null"])
def test_a_container_that_runs_since_nobody_knows_when_is_not_well_yet(running: Document) -> None:
    (trouble,) = troubles(with_container({"running": running}, terminated(1), restarts=1))
    assert trouble.reason == "CrashLoop"
    assert trouble.until is None
    assert troubles(with_container({"running": running})) == []


def test_a_restart_gives_its_time_with_a_fraction_and_in_any_zone() -> None:
    running = {"running": {"startedAt": "2026-11-15T13:00:00.5+01:00"}}
    (trouble,) = troubles(with_container(running, terminated(1), 0))
    assert trouble.until == STARTED_SECONDS + 10.5


def test_a_pod_without_a_node_says_what_the_scheduler_said() -> None:
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    status = {"phase": "Pending", "conditions": [condition]}
    assert troubles(status) == [Trouble("Unschedulable", message)]


def test_a_pod_with_a_node_was_scheduled_whatever_the_scheduler_says() -> None:
    """It asks again where the API server ends in the middle of an answer, and is refused then."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulerError",
        "message": "pod a is already assigned to node b",
    }
    assert troubles({"phase": "Running", "conditions": [condition]}, node="b") == []


def test_an_evicted_pod_says_why() -> None:
    message = "The node was low on resource: memory."
    status = {"phase": "Failed", "reason": "Evicted", "message": message}
    assert troubles(status) == [Trouble("Evicted", message)]


def init_status(state: Document, last: Document | None = None, restarts: int = 0) -> Document:
    return {
        "phase": "Pending",
        "initContainerStatuses": [{**container(state, last, restarts), "name": "prepare"}],
        "containerStatuses": [container(waiting("PodInitializing"))],
    }


@pytest.mark.parametrize("state", [BACK_OFF, terminated(2, message="no disk")])
def test_an_init_container_that_fails(state: Document) -> None:
    (trouble,) = troubles(init_status(state, terminated(2, message="no disk"), 1))
    assert trouble == Trouble("CrashLoop", "container prepare ended with exit code 2: no disk")


def test_an_init_container_whose_image_cannot_be_pulled() -> None:
    (trouble,) = troubles(init_status(waiting("ErrImagePull", "denied")))
    assert trouble.reason == "ImageNotPullable"
    assert "container prepare" in trouble.message


def test_an_init_container_that_did_its_work_is_no_trouble() -> None:
    assert troubles(init_status(terminated(0, "Completed"))) == []
    # Not even if it took two attempts.
    assert troubles(init_status(terminated(0, "Completed"), terminated(1), 1)) == []


def test_every_container_in_trouble_is_told_of() -> None:
    status: Document = {
        "containerStatuses": [
            container(BACK_OFF, terminated(1)),
            {**container(waiting("ErrImagePull", "denied")), "name": "superexec-clientapp"},
        ]
    }
    assert [each.reason for each in troubles(status)] == ["CrashLoop", "ImageNotPullable"]


def pod(status: Document, **metadata: Any) -> Pod | None:
    labels = {
        "app.kubernetes.io/managed-by": "flower-operator",
        "flower.flwr.ai/federation": "fed",
        "flower.flwr.ai/component": "supernode",
        "flower.flwr.ai/pool": "default",
    }
    about = {"name": "fed-supernode-default-0", "namespace": "team", "labels": labels, **metadata}
    answer = msgspec.json.encode({"metadata": about, "status": status})
    return pod_of(msgspec.json.decode(answer, type=PodForm))


@pytest.mark.parametrize("component", ["serverapp", "clientapp"])
def test_a_task_is_known_from_its_first_day_and_has_no_troubles_here(component: str) -> None:
    labels = {
        "flower.flwr.ai/federation": "fed",
        "flower.flwr.ai/component": component,
        "flower.flwr.ai/index": "1",
    }
    ends = with_container(BACK_OFF, terminated(1)) | {"phase": "Failed", "reason": "Evicted"}
    kept = [pod(status, uid="u", labels=labels) for status in ({"phase": "Pending"}, ends)]
    assert kept[0] == kept[1]
    assert kept[0] is not None
    assert (kept[0].uid, kept[0].index, kept[0].troubles) == ("u", "1", ())
    assert pod({}, labels=labels, deletionTimestamp="2026-11-15T12:00:00Z") is None


def test_a_pod_in_trouble_is_known_by_its_federation_and_pool() -> None:
    kept = pod(with_container(BACK_OFF, terminated(1)))
    assert kept is not None
    assert (kept.namespace, kept.federation) == ("team", "fed")
    assert (kept.component, kept.pool) == ("supernode", "default")
    assert kept.name == "fed-supernode-default-0"
    assert [each.reason for each in kept.troubles] == ["CrashLoop"]


@pytest.mark.parametrize(
    ("phase", "ended"),
    [("Pending", False), ("Running", False), ("Failed", True), ("Succeeded", True), ("", False)],
)
def test_a_pod_that_only_lies_about_is_told_from_one_that_goes_on(phase: str, ended: bool) -> None:
    kept = pod({**with_container(terminated(1)), "phase": phase})
    assert kept is not None
    assert kept.ended == ended


def test_a_healthy_pod_is_of_no_interest() -> None:
    assert pod(with_container(RUNNING)) is None
    assert pod({}) is None


def test_a_pod_on_its_way_out_is_of_no_interest() -> None:
    crashing = with_container(BACK_OFF, terminated(1))
    assert pod(crashing, deletionTimestamp="2026-11-15T12:00:00Z") is None


words = st.text(max_size=20)
reasons = st.sampled_from(
    ["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "StartError", "OOMKilled", "Other"]
)
times = st.datetimes(
    min_value=datetime(2001, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)
).map(lambda time: time.strftime("%Y-%m-%dT%H:%M:%SZ"))
states = st.fixed_dictionaries(
    {},
    optional={
        "waiting": st.fixed_dictionaries({}, optional={"reason": reasons, "message": words}),
        "running": st.fixed_dictionaries({}, optional={"startedAt": st.none() | times}),
        "terminated": st.fixed_dictionaries(
            {"exitCode": st.integers(-(2**31), 2**31 - 1)},
            optional={"reason": reasons, "message": words},
        ),
    },
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": words},
        optional={
            "image": words,
            "restartCount": st.integers(0, 2**31 - 1),
            "state": states,
            "lastState": states,
        },
    ),
    max_size=3,
)
conditions = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["PodScheduled", "Ready"]), "status": words},
        optional={"reason": words, "message": words},
    ),
    max_size=3,
)
statuses = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running", "Failed", "Succeeded", "Unknown"]),
        "reason": words,
        "message": words,
        "conditions": st.none() | conditions,
        "containerStatuses": st.none() | containers,
        "initContainerStatuses": st.none() | containers,
    },
)


@given(statuses)
def test_no_status_is_too_strange_to_read(status: Document) -> None:
    for trouble in troubles(status):
        assert trouble.reason
    kept = pod(status)
    assert (kept is None) == (troubles(status) == [])
