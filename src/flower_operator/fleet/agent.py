"""On another cluster: makes a key for each SuperNode of a pool, lets it start when the hub knows.

The private half is in a Secret there, from which its pod alone mounts it. The public half is told
to the hub in a ConfigMap. A key is one pod's: it is made when the pod is, and goes with it.

Where SuperExecs are in other pods, it makes what these and SuperNodes know each other by: a
certificate of the SuperNodes' own API and a shared secret, in one Secret, once.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..api.rules import pool_name
from ..kube.cache import Cache, Key
from ..kube.client import Client
from ..kube.errors import ApiError, Unreachable
from ..kube.resources import CONFIG_MAP, POD, SECRET
from ..render.agent import KEYS, admitted_name, report_name
from ..render.metadata import MANAGER, PREFIX
from ..render.secrets import GATE, runtime_name
from ..status.observed import Metadata, unversioned
from ..trust.keys import KeyPair, keyring_name
from ..trust.layout import SECRET_FILE, Files, decode_secret, encode_secret
from ..trust.names import site_supernode_names
from ..trust.steps import SECRET_BYTES
from .keys import mark_of

log = logging.getLogger(__name__)

PUBLIC_FILE = "public.json"
RETRY_SECONDS = 2.0


class _Gate(msgspec.Struct):
    name: str = ""


class _PodSpec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] | None = None


class _PodForm(msgspec.Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class Pod(msgspec.Struct, frozen=True):
    name: str
    uid: str
    gates: tuple[str, ...]

    @property
    def is_held(self) -> bool:
        return GATE in self.gates


class _TextForm(msgspec.Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    data: dict[str, str] | None = None


class Text(msgspec.Struct):
    metadata: Metadata
    data: dict[str, str]


@dataclass(frozen=True)
class Keys:
    """What is in the Secret."""

    private: Mapping[str, str] = field(default_factory=dict)
    """By the uid of the pod."""
    public: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    """Of the Secret; none: it is yet to be made."""


def changed(keys: Keys, pods: Iterable[Pod], make: Callable[[], KeyPair]) -> Keys:
    """A key for each pod that waits for one; those of pods that are gone go too."""
    every = tuple(pods)
    there = {pod.uid for pod in every}
    pairs = {pod.uid: make() for pod in every if pod.is_held and pod.uid not in keys.private}
    private = {uid: text for uid, text in keys.private.items() if uid in there}
    public = {uid: text for uid, text in keys.public.items() if uid in there}
    private |= {uid: pair.private for uid, pair in pairs.items()}
    public |= {uid: pair.public for uid, pair in pairs.items()}
    return Keys(private, public, keys.version)


def to_start(
    pods: Iterable[Pod], public: Mapping[str, str], admitted: Collection[str]
) -> list[Pod]:
    return [
        pod
        for pod in pods
        if pod.is_held and pod.uid in public and mark_of(public[pod.uid]) in admitted
    ]


class Agent:
    def __init__(
        self, client: Client, namespace: str, federation: str, pool: str, *, introduce: bool
    ) -> None:
        """`introduce`: to each other its SuperNodes and SuperExecs, which are in other pods."""
        self._client = client
        self._namespace = namespace
        self._federation = federation
        self._pool = pool
        self._introduce = introduce
        self._secret = keyring_name(federation, pool)
        self._report = report_name(federation, pool)
        self._admitted = admitted_name(federation, pool)
        self._keys: Keys | None = None
        self._wake = asyncio.Event()
        labels = {"federation": federation, "pool": pool, "component": "supernode"}
        chosen = ",".join(f"{PREFIX}/{name}={value}" for name, value in labels.items())
        self._pods: Cache[_PodForm, Pod] = Cache(
            client,
            POD,
            _PodForm,
            _pod_of,
            namespaces=[namespace],
            select={"labelSelector": chosen},
            changed=self._changed,
        )
        chosen = ",".join(f"{PREFIX}/{name}={labels[name]}" for name in ("federation", "pool"))
        self._texts: Cache[_TextForm, Text] = Cache(
            client,
            CONFIG_MAP,
            _TextForm,
            lambda form: Text(unversioned(form.metadata), form.data or {}),
            namespaces=[namespace],
            select={"labelSelector": chosen},
            changed=self._changed,
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._texts.run())
            # Whoever is not seen yet would else be taken to be gone.
            await self._pods.wait_until_synced()
            await self._texts.wait_until_synced()
            while True:
                self._wake.clear()
                try:
                    await self._act()
                except (ApiError, Unreachable) as error:
                    log.warning("not done", extra={"error": str(error)})
                    self._keys = None  # perhaps it is not as was believed
                    await asyncio.sleep(RETRY_SECONDS)
                else:
                    await self._wake.wait()

    async def _act(self) -> None:
        pods = list(self._pods.values())
        report = self._texts.get((self._namespace, self._report))
        if report is None:  # it comes, and goes, with the addon
            return
        if self._introduce:
            await self._make_runtime(report.metadata.uid)
        known = self._keys or await self._read()
        self._keys = await self._write(known, pods, report.metadata.uid)
        text = json.dumps(self._keys.public, sort_keys=True)
        if report.data.get(KEYS, "{}") != text:
            told_now = {"data": {KEYS: text}}
            await self._client.patch(CONFIG_MAP, self._namespace, self._report, told_now)
        told = self._texts.get((self._namespace, self._admitted))
        marks = {mark for part in (told.data.values() if told else ()) for mark in part.split(",")}
        for pod in to_start(pods, self._keys.public, marks):
            rest = [{"name": gate} for gate in pod.gates if gate != GATE]
            await self._open(pod, rest)

    async def _open(self, pod: Pod, rest: list[dict[str, str]]) -> None:
        changes = {"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": rest}}
        try:
            await self._client.patch(POD, self._namespace, pod.name, changes)
        except ApiError as error:
            if error.code not in (404, 409):  # gone, or another one of that name by now
                raise
        else:
            log.info("let go", extra={"pod": pod.name})

    async def _read(self) -> Keys:
        path = SECRET.path(self._namespace, self._secret)
        try:
            found = msgspec.json.decode(await self._client.get(path), type=_TextForm)
        except ApiError as error:
            if error.code != 404:
                raise
            return Keys()
        files = decode_secret(found.data or {})
        public = json.loads(files.pop(PUBLIC_FILE, "{}"))
        return Keys(files, public, found.metadata.resource_version)

    async def _write(self, known: Keys, pods: Iterable[Pod], owner: str) -> Keys:
        """`owner`: the uid of the report, which the Secret goes with."""
        from ..trust.certificates import make_key_pair

        keys = changed(known, pods, make_key_pair)
        if keys == known:
            return known
        files = {**keys.private, PUBLIC_FILE: json.dumps(keys.public)}
        body = self._body(self._secret, files, owner)
        if known.version:
            body["metadata"]["resourceVersion"] = known.version
            answer = await self._client.replace(SECRET, body)
        else:
            answer = await self._client.create(SECRET, self._namespace, body)
        version = msgspec.json.decode(answer, type=_TextForm).metadata.resource_version
        return Keys(keys.private, keys.public, version)

    async def _make_runtime(self, owner: str) -> None:
        """Unless it is there: pods that run were started with it."""
        from ..trust.certificates import lone_certificate

        name = runtime_name(self._federation, self._pool)
        try:
            await self._client.get(SECRET.path(self._namespace, name))
        except ApiError as error:
            if error.code != 404:
                raise
        else:
            return
        files = lone_certificate(
            pool_name(self._federation, self._pool),
            self._federation,
            self._namespace,
            site_supernode_names(self._federation, self._pool, self._namespace),
            datetime.now(UTC),
        )
        files = {**files, SECRET_FILE: secrets.token_hex(SECRET_BYTES)}
        await self._client.create(SECRET, self._namespace, self._body(name, files, owner))
        log.info("made", extra={"secret": name})

    def _body(self, name: str, files: Files, owner: str) -> dict[str, Any]:
        reference = {"apiVersion": "v1", "kind": CONFIG_MAP.kind, "name": self._report}
        metadata = {
            "name": name,
            "namespace": self._namespace,
            "labels": {"app.kubernetes.io/managed-by": MANAGER},
            "ownerReferences": [reference | {"uid": owner}],
        }
        data = encode_secret(files)
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}

    def _changed(self, key: Key, old: object, new: object) -> None:
        self._wake.set()


def _pod_of(form: _PodForm) -> Pod | None:
    """A pod that is on its way out has its key for as long as it is there."""
    gates = tuple(gate.name for gate in form.spec.scheduling_gates or ())
    return Pod(form.metadata.name, form.metadata.uid, gates)
