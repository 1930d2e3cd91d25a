"""The Events that the operator writes."""

from datetime import UTC, datetime

from flower_operator.kube.applied import Owner
from flower_operator.kube.events import LONGEST_MESSAGE, event

LAB = Owner("flwr.exalsius.ai/v1", "Federation", "lab", "u-1")


def test_an_event_has_happened_once_to_its_federation() -> None:
    now = datetime(2027, 1, 15, 8, tzinfo=UTC)
    body = event(
        LAB, "team", "Applied", "x" * 2000, warning=True, source="flower-operator", now=now
    )
    assert (body["type"], body["reason"], body["count"]) == ("Warning", "Applied", 1)
    assert body["firstTimestamp"] == body["lastTimestamp"] == "2027-01-15T08:00:00Z"
    assert body["involvedObject"] == {
        "apiVersion": "flwr.exalsius.ai/v1",
        "kind": "Federation",
        "name": "lab",
        "namespace": "team",
        "uid": "u-1",
    }
    assert len(body["message"]) == LONGEST_MESSAGE, "the API server refuses longer ones"
