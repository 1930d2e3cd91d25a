"""The files of the Helm chart that follow from the code: the CRD, the rules, the version.

They are data. The chart's templates read them as they are, so that nothing in a description or a
default can be taken for a template's own language.
"""

from pathlib import Path
from typing import Any

from flower_operator import __version__
from flower_operator.api.crd import custom_resource_definition
from flower_operator.cli.output import crd_to_yaml, to_yaml
from flower_operator.operator.permissions import (
    FLEET,
    LEADER_ELECTION,
    MANAGER,
    METRICS,
    TASK_EXECUTOR,
    TASK_EXECUTOR_BINDING,
    Rule,
)
from scripts import admission

CHART = Path(__file__).parents[1] / "dist/chart"
GENERATED = CHART / "generated"

ROLES = {
    "manager": MANAGER,
    "leader-election": LEADER_ELECTION,
    "metrics-auth": METRICS,
    "task-executor": TASK_EXECUTOR,
    "task-executor-binding": TASK_EXECUTOR_BINDING,
    "addon": FLEET,
}


def chart_files() -> dict[Path, str]:
    crd = custom_resource_definition()
    files = {
        CHART / "Chart.yaml": to_yaml([chart(__version__)]),
        # The rest of it is up to the values: labels, and whether it stays at an uninstall.
        GENERATED / "crd.yaml": crd_to_yaml({"spec": crd["spec"]}),
    }
    files[GENERATED / "admission-policy.yaml"] = to_yaml([{"spec": admission.policy()}])
    for name, rules in ROLES.items():
        files[GENERATED / f"{name}.yaml"] = to_yaml([{"rules": [policy(rule) for rule in rules]}])
    return files


def chart(version: str) -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": "flower-operator",
        "description": "Runs Flower federations from one manifest.",
        "type": "application",
        "version": version,
        "appVersion": version,
        # The CRD's rules are in CEL. "-0" lets vendors' versions pass, such as 1.33.1-gke.100.
        "kubeVersion": ">=1.28.0-0",
        "keywords": ["federated learning", "flower", "flwr"],
    }


def policy(rule: Rule) -> dict[str, Any]:
    """A rule as a Role or ClusterRole has it."""
    names = {"resourceNames": list(rule.names)} if rule.names else {}
    return {
        "apiGroups": [rule.group],
        "resources": list(rule.resources),
        **names,
        "verbs": list(rule.verbs),
    }
