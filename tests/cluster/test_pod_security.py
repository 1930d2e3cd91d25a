"""The operator's reading of Pod Security restricted is the API server's."""

import pytest

from flower_operator.api.manifest import parse
from flower_operator.render import Facts, render
from flower_operator.render.admin_limits import BEYOND as WORDS
from flower_operator.render.admin_limits import pod_problems
from tests.cluster.federations import Document, manifest
from tests.harness.control_plane import ControlPlane
from tests.harness.pod_security import BEYOND, POOL, WITHIN

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def pods(control_plane: ControlPlane) -> str:
    """Where pods are let in that are restricted; nothing is kept."""
    name = "pod-security"
    control_plane.kubectl("create", "namespace", name)
    control_plane.kubectl("create", "serviceaccount", "default", "-n", name)
    label = "pod-security.kubernetes.io/enforce=restricted"
    control_plane.kubectl("label", "namespace", name, label)
    return f"/api/v1/namespaces/{name}/pods?dryRun=All"


@pytest.mark.parametrize(
    ("template", "allowed"),
    [
        *((template, False) for template in BEYOND.values()),
        *((template, True) for template in WITHIN),
    ],
)
def test_what_is_restricted_is_let_in(
    control_plane: ControlPlane, pods: str, template: Document, allowed: bool
) -> None:
    document = manifest("lab", pools=[{"name": "default", "replicas": 1, "podTemplate": template}])
    federation = parse(document)
    (workload,) = (
        each for each in render(federation, Facts()).objects if each["kind"] == "StatefulSet"
    )
    rendered = workload["spec"]["template"]
    problems = pod_problems(POOL, federation.spec.supernodes.pools[0], rendered)
    metadata = {**rendered["metadata"], "name": "pod"}
    status, answer = control_plane.request("POST", pods, {**rendered, "metadata": metadata})
    assert (status == 201) == allowed, answer
    assert (problems == []) == allowed
    assert all(problem.message.endswith(WORDS) for problem in problems)
