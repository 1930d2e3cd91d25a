"""Run inside a flwr environment: let flwr's own Kubernetes executor start a task and clear it away.

Reads the executor's config from a file and writes, as JSON, each call that it makes to the API
server: the method of the `kubernetes` package's client and what it is called with. That client is
the only thing that is played here: the task's pod has ended when the executor looks at it.
"""

import dataclasses
import json
import sys

from flwr.supercore.constant import ExecutorType, TaskType  # type: ignore[import-not-found]
from flwr.supercore.superexec.executor import (  # type: ignore[import-not-found]
    factory,
    kubernetes_executor,
)
from flwr.supercore.superexec.executor.config import (  # type: ignore[import-not-found]
    load_executor_config,
)
from flwr.supercore.superexec.executor.types import ExecutionSpec  # type: ignore[import-not-found]


class Recorder:
    def __init__(self) -> None:
        self.calls: list[dict[str, object]] = []
        self.pods: list[dict[str, object]] = []
        self.secrets: list[dict[str, object]] = []

    def _note(self, method: str, **arguments: object) -> None:
        self.calls.append({"method": method, **arguments})

    def create_namespaced_secret(self, namespace: str, body: dict[str, object]) -> None:
        self._note("create_namespaced_secret", namespace=namespace, body=body)
        self.secrets.append(body)

    def create_namespaced_pod(self, namespace: str, body: dict[str, object]) -> None:
        self._note("create_namespaced_pod", namespace=namespace, body=body)
        self.pods.append({**body, "status": {"phase": "Succeeded"}})

    def list_namespaced_pod(self, namespace: str, label_selector: str) -> dict[str, object]:
        self._note("list_namespaced_pod", namespace=namespace, selector=label_selector)
        return {"items": self.pods}

    def list_namespaced_secret(self, namespace: str, label_selector: str) -> dict[str, object]:
        self._note("list_namespaced_secret", namespace=namespace, selector=label_selector)
        return {"items": self.secrets}

    def delete_namespaced_pod(self, name: str, namespace: str, **_: object) -> None:
        self._note("delete_namespaced_pod", namespace=namespace, name=name)

    def delete_namespaced_secret(self, name: str, namespace: str) -> None:
        self._note("delete_namespaced_secret", namespace=namespace, name=name)


def launch(path: str, address: str, task_type: str) -> list[dict[str, object]]:
    config = factory._kubernetes_executor_config_from_mapping(
        load_executor_config(path, ExecutorType.KUBERNETES)
    )
    recorder = Recorder()
    executor = kubernetes_executor.KubernetesExecutor(client=recorder, config=config)
    values = {
        "task_type": TaskType(task_type),
        "appio_api_address": address,
        "runtime_api_address": address,
        "token": "token",
        "insecure": True,
        "root_certificates_path": None,
        "runtime_dependency_install": False,
        "parent_pid": None,
        "suppress_output": False,
        "task_id": 7,
    }
    names = [field.name for field in dataclasses.fields(ExecutionSpec)]
    result = executor.launch(ExecutionSpec(**{name: values.get(name) for name in names}))
    if result.status.value != "accepted":
        raise RuntimeError(f"the executor did not start the task: {result}")
    executor._completed_pod_sweeper.sweep()
    return recorder.calls


if __name__ == "__main__":
    json.dump(launch(*sys.argv[1:]), sys.stdout)
