"""The manifests that Open Cluster Management brings along, made as its operators make them."""

import json
import subprocess
from typing import Any

from .binaries import binary
from .control_plane import ControlPlane
from .waiting import wait_for

_APPLY = {"Content-Type": "application/apply-patch+yaml"}

Document = dict[str, Any]


def manifests(values: Document, *patterns: str) -> list[Document]:
    """Those whose paths match, made of their templates and the values."""
    command = [str(binary("ocm")), "manifests", json.dumps({"Labels": {}, **values}), *patterns]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"no manifests: {done.stderr}")
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    for document in documents:
        # The operators take a key that ends so for one to remove.
        annotations = document["metadata"].get("annotations") or {}
        for key in [each for each in annotations if each.endswith("-")]:
            del annotations[key]
    return documents


def call_at(server: str, document: Document) -> None:
    """Let the API server find the webhooks of the document at an address, not by a Service."""
    conversion = document.get("spec", {}).get("conversion", {})
    for each in [*document.get("webhooks", []), *([conversion["webhook"]] if conversion else [])]:
        service = each["clientConfig"].pop("service")
        each["clientConfig"]["url"] = f"{server}{service['path']}"


def apply(plane: ControlPlane, documents: list[Document]) -> None:
    """Apply all, and wait until the API of each definition is served."""
    for document in documents:
        path = f"{_collection(document)}/{document['metadata']['name']}?fieldManager=test"
        # For seconds less than kubectl takes.
        status, answer = plane.request("PATCH", path, document, _APPLY)
        if status not in (200, 201):
            raise RuntimeError(f"{path}: {answer}")
    for document in documents:
        if document["kind"] == "CustomResourceDefinition":
            _wait_until_served(plane, document["spec"])


def _collection(document: Document) -> str:
    version, namespace = document["apiVersion"], document["metadata"].get("namespace")
    group = "/api/v1" if version == "v1" else f"/apis/{version}"
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{group}{within}/{document['kind'].lower()}s"


def _wait_until_served(plane: ControlPlane, definition: Document) -> None:
    for version in definition["versions"]:
        if version["served"]:
            names = definition["names"]["plural"]
            path = f"/apis/{definition['group']}/{version['name']}/{names}?limit=1"
            wait_for(
                lambda path=path: plane.request("GET", path)[0] == 200,  # type: ignore[misc]
                f"{path} is not served",
                timeout=30,
            )
