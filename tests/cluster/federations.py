"""Federations for the tests here, and what to ask of the cluster about them."""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self

from flower_operator.api.manifest import parse
from flower_operator.operator.desired import CHILDREN, FEDERATION
from flower_operator.render import Facts, render
from flower_operator.render.facts import Identities
from flower_operator.trust.keys import keyring_name, read_keyring
from flower_operator.trust.layout import (
    RECORD_FILE,
    Part,
    Stored,
    decode_secret,
    encode_secret,
    pool_secret_name,
)
from flower_operator.trust.records import read_secret, read_state
from tests.harness.control_plane import ControlPlane
from tests.harness.records import older_record
from tests.harness.waiting import wait_for

Document = dict[str, Any]

RELEASE = "1.41.0"
READY_SECONDS = 60.0
APPLY = {"Content-Type": "application/apply-patch+yaml"}
OF_EVERY_NAMESPACE = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
HEAD = {"apiVersion", "kind", "metadata", "status"}


def manifest(name: str, **spec: Any) -> Document:
    """A small Federation; what is given replaces fields of its spec, or its one pool."""
    document: Document = {
        "apiVersion": FEDERATION.api_version,
        "kind": FEDERATION.kind,
        "metadata": {"name": name},
        "spec": {
            "mode": "StatefulSet",
            "isolationMode": "subprocess",
            "superlink": {"image": f"flwr/superlink:{RELEASE}"},
            "supernodes": {
                "image": f"flwr/supernode:{RELEASE}",
                "pools": [{"name": "default", "replicas": 2}],
            },
        },
    }
    pools = spec.pop("pools", None)
    document["spec"] |= spec
    if pools is not None:
        document["spec"]["supernodes"]["pools"] = pools
    return document


class Namespace:
    """One namespace of a cluster, where Federations come and go."""

    def __init__(self, cluster: ControlPlane, name: str) -> None:
        self.cluster = cluster
        self.name = name

    @classmethod
    @contextmanager
    def new(cls, cluster: ControlPlane) -> Iterator[Self]:
        """One that nobody else uses; it goes in its own time."""
        name = f"test-{secrets.token_hex(4)}"
        cluster.kubectl("create", "namespace", name)
        yield cls(cluster, name)
        cluster.kubectl("delete", "namespace", name, "--wait=false")

    def apply(self, document: Document) -> Document:
        """As kubectl apply does it: with the whole of what is wanted."""
        name = document["metadata"]["name"]
        path = f"{FEDERATION.path(self.name, name)}?fieldManager=test&force=true"
        status, answer = self.cluster.request("PATCH", path, document, APPLY)
        assert status in (200, 201), answer
        applied: Document = answer
        return applied

    def delete(self, name: str) -> None:
        status, answer = self.cluster.request("DELETE", FEDERATION.path(self.name, name))
        assert status == 200, answer

    def federation(self, name: str) -> Document:
        status, answer = self.cluster.request("GET", FEDERATION.path(self.name, name))
        assert status == 200, answer
        federation: Document = answer
        return federation

    def get(self, kind: str, name: str) -> Document | None:
        status, answer = self.cluster.request("GET", CHILDREN[kind].path(self.name, name))
        return answer if status == 200 else None

    def patch(self, kind: str, name: str, patch: Document) -> Document:
        """A change by hand."""
        path = f"{CHILDREN[kind].path(self.name, name)}?fieldManager=by-hand"
        status, answer = self.cluster.request("PATCH", path, patch)
        assert status == 200, answer
        patched: Document = answer
        return patched

    def children(self) -> dict[tuple[str, str], Document]:
        """Everything there is of the kinds that Federations are made of, certificates aside."""
        found = {}
        for kind, resource in CHILDREN.items():
            path = f"{resource.path(self.name)}?labelSelector=flower.flwr.ai/component!=trust"
            status, answer = self.cluster.request("GET", path)
            # Skupper's kinds are not on every cluster.
            for each in answer["items"] if status == 200 else ():
                if (kind, each["metadata"]["name"]) not in OF_EVERY_NAMESPACE:
                    # A list names the kind of its items once for all.
                    whole = {"apiVersion": resource.api_version, "kind": kind, **each}
                    found[kind, each["metadata"]["name"]] = whole
        return found

    def pods(self) -> list[Document]:
        path = f"/api/v1/namespaces/{self.name}/pods"
        pods: list[Document] = self.cluster.request("GET", path)[1]["items"]
        return pods

    def events(self, name: str) -> list[Document]:
        """What the operator told about a Federation, oldest first."""
        path = f"/api/v1/namespaces/{self.name}/events"
        events = self.cluster.request("GET", path)[1]["items"]
        ours = [
            each
            for each in events
            if each["involvedObject"]["kind"] == FEDERATION.kind
            and each["involvedObject"]["name"] == name
        ]
        return sorted(ours, key=lambda each: int(each["metadata"]["resourceVersion"]))

    def wait_until_ready(self, name: str, timeout: float = READY_SECONDS) -> Document:
        return self.wait_for_condition(name, "Ready", "True", timeout=timeout)

    def wait_for_condition(
        self,
        name: str,
        kind: str,
        status: str,
        reason: str | None = None,
        timeout: float = READY_SECONDS,
    ) -> Document:
        """The Federation, once a condition of its current generation says this."""

        def found() -> Document | None:
            federation = self.federation(name)
            given = condition(federation, kind)
            current = given.get("observedGeneration") == federation["metadata"]["generation"]
            right = given.get("status") == status and reason in (None, given.get("reason"))
            return federation if current and right else None

        def message() -> str:
            said = json.dumps(self.federation(name).get("status"), indent=1)
            return f"{name} has no {kind}={status} {reason or ''}; its status is {said}"

        return wait_for(found, message, timeout)

    def wait_until_as_rendered(self, *documents: Document, timeout: float = READY_SECONDS) -> None:
        """Until there is exactly what these Federations are rendered to, and nothing else."""
        differences: list[str] = []

        def same() -> bool:
            differences[:] = self.differences(*documents)
            return not differences

        wait_for(same, lambda: f"not as rendered: {'; '.join(differences)}", timeout, interval=0.2)

    def differences(self, *documents: Document) -> list[str]:
        wanted = {
            (each["kind"], each["metadata"]["name"]): each
            for document in documents
            for each in rendered(document, self.name, self.identities(document))
        }
        there = self.children()
        found = [f"{kind} {name} is missing" for kind, name in wanted.keys() - there.keys()]
        found += [f"{kind} {name} is left over" for kind, name in there.keys() - wanted.keys()]
        for key in wanted.keys() & there.keys():
            if there[key]["metadata"].get("deletionTimestamp"):
                found.append(f"{key[0]} {key[1]} is on its way out")
            elif not self._would_stay(wanted[key], there[key]):
                found.append(f"{key[0]} {key[1]} differs")
        return found

    def identities(self, document: Document) -> Identities | None:
        """What the pods of a secure Federation are to be started with."""
        if document["spec"].get("insecure", True):
            return None
        files = {part: self._files(part, document["metadata"]["name"]) for part in Part}
        parts = (Part.AUTHORITIES, Part.BUNDLE, Part.SERVER, Part.SUPERNODE)
        state = read_state(Stored(*(files[part] for part in parts)))
        secret = read_secret(files[Part.SUPEREXEC])
        if "external" in document["spec"]["superlink"]:
            return Identities("", "", pool_secrets=self._pool_secrets(document))
        assert state.certificate
        assert state.called
        return Identities(
            state.certificate.identity,
            state.called.identity,
            secret.identity if secret else None,
            self._rounds(document),
            supernode=state.supernode.identity if state.supernode else None,
            pool_secrets=self._pool_secrets(document),
        )

    def _pool_secrets(self, document: Document) -> tuple[tuple[str, str], ...]:
        name = document["metadata"]["name"]
        pools = [pool["name"] for pool in document["spec"]["supernodes"]["pools"]]
        found = {pool: read_secret(self.secret(pool_secret_name(name, pool))) for pool in pools}
        return tuple((pool, secret.identity) for pool, secret in found.items() if secret)

    def _rounds(self, document: Document) -> tuple[tuple[str, str], ...]:
        if not document["spec"].get("supernodeAuth", {}).get("enabled"):
            return ()
        pools = [pool["name"] for pool in document["spec"]["supernodes"]["pools"]]
        names = {pool: keyring_name(document["metadata"]["name"], pool) for pool in pools}
        rings = {pool: read_keyring(self.secret(name)) for pool, name in names.items()}
        return tuple((pool, ring.round) for pool, ring in rings.items() if ring)

    def secret(self, name: str) -> dict[str, str]:
        """The files of a Secret, none if there is no such Secret."""
        path = f"/api/v1/namespaces/{self.name}/secrets/{name}"
        status, answer = self.cluster.request("GET", path)
        return decode_secret(answer["data"] if status == 200 else {})

    def make_older(self, secret: str, age: timedelta) -> None:
        """As if what is in a Secret of the operator's had been made so long before."""
        record = older_record(self.secret(secret)[RECORD_FILE], age)
        path = f"/api/v1/namespaces/{self.name}/secrets/{secret}"
        body = {"data": encode_secret({RECORD_FILE: record})}
        status, answer = self.cluster.request("PATCH", path, body)
        assert status == 200, answer

    def _files(self, part: Part, federation: str) -> dict[str, str]:
        name = part.object_name(federation)
        if part.is_secret:
            return self.secret(name)
        path = f"/api/v1/namespaces/{self.name}/configmaps/{name}"
        status, answer = self.cluster.request("GET", path)
        data: dict[str, str] = answer["data"] if status == 200 else {}
        return data

    def _would_stay(self, wanted: Document, there: Document) -> bool:
        """Whether applying what is wanted would change nothing, by the API server's judgement."""
        path = CHILDREN[wanted["kind"]].path(self.name, wanted["metadata"]["name"])
        query = "?dryRun=All&fieldManager=flower-operator&force=true"
        status, answer = self.cluster.request("PATCH", path + query, wanted, APPLY)
        labels = there["metadata"]["labels"], answer.get("metadata", {}).get("labels")
        parts = (there.keys() | answer.keys()) - HEAD
        same = all(there.get(part) == answer.get(part) for part in parts)
        return status == 200 and same and labels[0] == labels[1]


def rendered(
    document: Document, namespace: str, identities: Identities | None = None
) -> list[Document]:
    facts = Facts(namespace=namespace, identities=identities)
    return list(render(parse(document), facts).objects)


def condition(federation: Document, kind: str) -> Document:
    conditions = federation.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def wait_until(
    check: Callable[[], bool], message: str | Callable[[], str], timeout: float = READY_SECONDS
) -> None:
    wait_for(check, message, timeout)
