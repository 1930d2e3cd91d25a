"""What app code can read in subprocess isolation, where it shares a container with Flower's own."""

import pytest

from flower_operator.api.manifest import parse
from flower_operator.api.problems import InvalidFederation
from flower_operator.operator.desired import desired_of
from tests.unit.federations import Document, document
from tests.unit.observations import federation
from tests.unit.test_external import external

KEYED: Document = {"insecure": False, "supernodeAuth": {"enabled": True}}
ALLOWED: Document = {
    "insecure": False,
    "supernodeAuth": {"enabled": True, "allowSubprocess": True},
}
SERVER_KEY = (
    "spec.isolationMode: in subprocess isolation ServerApps run in the SuperLink's container and "
    "can read the private key of its certificate; in process isolation they cannot"
)
NODE_KEY = (
    "spec.supernodeAuth.allowSubprocess: ClientApps run in their SuperNode's container and can "
    "read its private key"
)


def notices(manifest: Document) -> list[str]:
    every = desired_of(federation(manifest))[0].outline.notices
    return [notice for notice in every if "can read" in notice]


def test_keys_in_subprocess_isolation_have_to_be_allowed() -> None:
    with pytest.raises(InvalidFederation) as caught:
        parse(document(**KEYED))
    (problem,) = caught.value.problems
    assert str(problem) == (
        "spec.supernodeAuth.enabled: spec.supernodeAuth.enabled needs isolationMode=process or "
        "spec.supernodeAuth.allowSubprocess=true: in subprocess isolation ClientApps can read "
        "their SuperNode's private key"
    )
    assert parse(document(**ALLOWED)).spec.supernode_auth.allow_subprocess
    assert parse(document(isolation="process", **KEYED))
    assert parse(document(isolation="process", **ALLOWED))


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (document(), []),
        (document(insecure=False), [SERVER_KEY]),
        (document(**ALLOWED), [SERVER_KEY, NODE_KEY]),
        (document(superlink=external(), **ALLOWED), [NODE_KEY]),
        (document(isolation="process", **ALLOWED), []),
        (document(isolation="process", insecure=False), []),
    ],
)
def test_private_keys_that_app_code_can_read_are_noticed(
    manifest: Document, told: list[str]
) -> None:
    assert notices(manifest) == told
