"""The in-memory API server: objects, versions, writes, watches, and faults on request."""

import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from flower_operator.kube import resources as kinds
from flower_operator.kube.client import APPLY, JSON_PATCH, MERGE_PATCH
from flower_operator.kube.resources import Resource

from . import field_managers
from .field_managers import ApplyConflict, Manager, Object, managed_fields, managers_of
from .history import History
from .patches import JsonPatchTestFailed, json_patch, merge_patch
from .requests import Fault, Key, Refused, Request, Target
from .rules import (
    BUILT_IN,
    FINALIZERS,
    POD_GRACE_SECONDS,
    RETURNED_WHEN_DELETED,
    WITHOUT_MANAGERS,
    counts_generations,
    has_grace,
    immutable_field,
    is_new_generation,
    success,
    untimed,
    without_status,
    writable,
)
from .selectors import matches

FIRST_VERSION = 10

Owners = Mapping[Manager, field_managers.Fields]

Validator = Callable[[Resource, Object | None, Object], str]
"""Why a new object, in place of an old one, is invalid; empty if it is valid."""


class MemoryApiServer:
    """Objects of all kinds, and the requests that read and write them.

    `fault` decides what goes wrong with each request, `validate` refuses objects (422), and
    `latency` gives the seconds that a request or a watch event travels.
    """

    def __init__(
        self,
        custom: Iterable[Resource] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.resources = {
            (resource.api_version, resource.plural): resource for resource in (*BUILT_IN, *custom)
        }
        self.clock = clock
        self.requests: list[Request] = []
        self.fault: Callable[[Request], Fault | None] = lambda request: None
        self.validate: Validator = lambda resource, old, new: ""
        self.latency: Callable[[], float] = lambda: 0.0
        self.changed: list[Callable[[], None]] = []
        """Called after each write but those of Leases, which nobody watches."""
        self.history = History(FIRST_VERSION, lambda: self.latency())
        self._objects: dict[Resource, dict[Key, Object]] = {
            resource: {} for resource in self.resources.values()
        }
        self._snapshots: dict[str, list[Object]] = {}
        self._numbers = itertools.count(1)

    def add(self, resource: Resource) -> None:
        """Serve one more kind, as after a CustomResourceDefinition is installed."""
        self.resources[resource.api_version, resource.plural] = resource
        self._objects[resource] = {}

    @property
    def version(self) -> int:
        return self.history.version

    # Reading.

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._objects[resource].get((namespace, name))

    def objects(self, resource: Resource, namespace: str = "") -> list[Object]:
        return [
            body
            for (place, _), body in sorted(self._objects[resource].items())
            if namespace in ("", place)
        ]

    # Requests.

    def handle(self, request: Request) -> tuple[int, Object]:
        """Carry a request out; the code and the body of its answer."""
        try:
            if request.path == "/apis":
                return 200, self._groups()
            target = self._target(request.path)
            answer = self._dispatch(request, target)
        except Refused as refused:
            return refused.code, refused.status
        return (201 if request.method == "POST" else 200), answer

    def _dispatch(self, request: Request, target: Target) -> Object:
        match request.method:
            case "GET" if target.name:
                return self._existing(target)
            case "GET":
                return self._list(request, target)
            case "POST":
                return self._create(request, target)
            case "PUT":
                return self._replace(request, target)
            case "PATCH" if request.content == APPLY:
                return self._apply(request, target)
            case "PATCH":
                return self._patch(request, target)
            case "DELETE":
                return self._delete(request, target)
        raise Refused(405, "MethodNotAllowed", request.method)

    def _groups(self) -> Object:
        groups = sorted({resource.group for resource in self._objects if resource.group})
        return {"kind": "APIGroupList", "groups": [{"name": group} for group in groups]}

    def _target(self, path: str) -> Target:
        parts = path.strip("/").split("/")
        version, rest = (
            (parts[1], parts[2:])
            if parts[0] == "api"
            else (
                "/".join(parts[1:3]),
                parts[3:],
            )
        )
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = self.resources.get((version, rest[0]))
        if resource is None:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        name, subresource = (*rest[1:], "", "")[:2]
        return Target(resource, namespace, name, subresource)

    def _existing(self, target: Target) -> Object:
        body = self._objects[target.resource].get(target.key)
        if body is None:
            raise Refused(404, "NotFound", f"{_name(target)} not found")
        return body

    def _list(self, request: Request, target: Target) -> Object:
        token = request.parameters.get("continue", "")
        version = str(self.version)
        if token:
            if token not in self._snapshots:
                raise Refused(410, "Expired", "The provided continue parameter is too old")
            items, version = self._snapshots.pop(token), token.partition("-")[0]
        else:
            items = [
                body
                for body in self.objects(target.resource, target.namespace)
                if matches(body, request.parameters)
            ]
        metadata: Object = {"resourceVersion": version}
        limit = int(request.parameters.get("limit", "0"))
        if limit and len(items) > limit:
            metadata["continue"] = f"{version}-{next(self._numbers)}"
            self._snapshots[metadata["continue"]] = items[limit:]
            items = items[:limit]
        kind = f"{target.resource.kind}List"
        return {
            "kind": kind,
            "apiVersion": target.resource.api_version,
            "metadata": metadata,
            "items": items,
        }

    # Writing.

    def _create(self, request: Request, target: Target) -> Object:
        head = {"apiVersion": target.resource.api_version, "kind": target.resource.kind}
        body: Object = {**head, **request.body}
        metadata = {**body["metadata"], "namespace": target.namespace}
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{next(self._numbers):05x}"
        if metadata.get("resourceVersion"):
            raise Refused(400, "BadRequest", "resourceVersion can not be set for Create requests")
        target = Target(target.resource, target.namespace, metadata["name"], "")
        if target.key in self._objects[target.resource]:
            raise Refused(409, "AlreadyExists", f"{_name(target)} already exists")
        empty = {"kind": body["kind"], "metadata": {}}
        body = without_status(target.resource, {**body, "metadata": metadata})
        owners = self._owners(request, target, empty, body, {})
        return self._commit(request, target, None, body, owners)

    def _replace(self, request: Request, target: Target) -> Object:
        live = self._existing(target)
        return self._update(request, target, live, request.body)

    def _patch(self, request: Request, target: Target) -> Object:
        live = self._existing(target)
        if request.content == MERGE_PATCH:
            return self._update(request, target, live, merge_patch(live, request.body))
        assert request.content == JSON_PATCH
        try:
            new = json_patch(live, request.body)
        except JsonPatchTestFailed:
            message = "the server rejected our request due to an error in our request"
            raise Refused(422, "Invalid", message) from None
        return self._update(request, target, live, new)

    def _update(self, request: Request, target: Target, live: Object, new: Object) -> Object:
        self._check_preconditions(target, live, new["metadata"])
        new = writable(target, live, new)
        owners: Owners = managers_of(live)
        given = new["metadata"].get("managedFields")
        if given != live["metadata"].get("managedFields"):
            owners = managers_of(new)
        owners = self._owners(request, target, live, new, owners)
        return self._commit(request, target, live, new, owners)

    def _owners(
        self, request: Request, target: Target, live: Object, new: Object, owners: Owners
    ) -> Owners:
        if target.resource.kind in WITHOUT_MANAGERS:
            return {}
        manager = Manager(request.manager, "Update", target.subresource)
        return field_managers.update(live, new, owners, manager)

    def _apply(self, request: Request, target: Target) -> Object:
        applied, live = request.body, self._objects[target.resource].get(target.key)
        wanted = applied["metadata"]
        manager = Manager(request.manager, "Apply", target.subresource)
        force = request.parameters.get("force") == "true"
        if live is None:
            if "uid" in wanted:
                message = f"uid mismatch: the provided object specified uid {wanted['uid']}"
                raise Refused(409, "Conflict", f"{message}, and no existing object was found")
            empty = {"kind": applied["kind"], "metadata": {}}
            new, owners = field_managers.apply(empty, applied, {}, manager, force)
            new["metadata"] |= {"namespace": target.namespace, "name": target.name}
            return self._commit(request, target, None, without_status(target.resource, new), owners)
        self._check_preconditions(target, live, wanted)
        try:
            new, owners = field_managers.apply(live, applied, managers_of(live), manager, force)
        except ApplyConflict as conflict:
            raise Refused(409, "Conflict", f"Apply failed with 1 conflict: {conflict}") from None
        return self._commit(request, target, live, writable(target, live, new), owners)

    def _check_preconditions(self, target: Target, live: Object, wanted: Object) -> None:
        has = live["metadata"]
        if wanted.get("resourceVersion", has["resourceVersion"]) != has["resourceVersion"]:
            message = f"Operation cannot be fulfilled on {_name(target)}"
            raise Refused(409, "Conflict", f"{message}: the object has been modified")
        if wanted.get("uid", has["uid"]) != has["uid"]:
            message = f'metadata.uid: Invalid value: "{wanted["uid"]}": field is immutable'
            raise self._invalid(target, message)

    def _invalid(self, target: Target, reason: str) -> Refused:
        title = f'{target.resource.kind} "{target.name}"'
        return Refused(422, "Invalid", f"{title} is invalid: {reason}")

    def _delete(self, request: Request, target: Target) -> Object:
        live, options = self._existing(target), request.body or {}
        uid = options.get("preconditions", {}).get("uid")
        if uid not in (None, live["metadata"]["uid"]):
            message = f"Operation cannot be fulfilled on {_name(target)}"
            raise Refused(409, "Conflict", f"{message}: Precondition failed: UID")
        metadata = live["metadata"]
        finalizers = list(metadata.get("finalizers", ()))
        finalizer = FINALIZERS.get(options.get("propagationPolicy", ""))
        if finalizer and finalizer not in finalizers and not metadata.get("deletionTimestamp"):
            finalizers.append(finalizer)
        running = has_grace(target.resource, live, options)
        if not finalizers and not running:
            self._remove(target, live)
            if target.resource.kind not in RETURNED_WHEN_DELETED:
                return success(live)
            return {**live, "metadata": {**metadata, "resourceVersion": str(self.version)}}
        if metadata.get("deletionTimestamp"):
            return live
        new: Object = {**live, "metadata": {**metadata, "deletionTimestamp": self._now()}}
        if finalizers:
            new["metadata"]["finalizers"] = finalizers
        if metadata.get("generation"):
            new["metadata"]["generation"] = metadata["generation"] + 1
        new["metadata"]["deletionGracePeriodSeconds"] = POD_GRACE_SECONDS if running else 0
        return self._store(target, live, new)

    def _commit(
        self,
        request: Request,
        target: Target,
        live: Object | None,
        new: Object,
        owners: Owners,
    ) -> Object:
        """Store a new object, unless it equals the old one or is invalid."""
        metadata = dict(new["metadata"])
        if live is None:
            metadata |= {"uid": f"uid-{next(self._numbers)}", "creationTimestamp": self._now()}
            metadata.pop("resourceVersion", None)
            if counts_generations(target.resource):
                metadata["generation"] = 1
        elif counts_generations(target.resource) and is_new_generation(live, new):
            metadata["generation"] = live["metadata"]["generation"] + 1
        reason = immutable_field(live, new) or self.validate(target.resource, live, new)
        if reason:
            raise self._invalid(target, reason)
        entries = managed_fields(owners, target.resource.api_version, self._now())
        before = live["metadata"].get("managedFields", []) if live else []
        metadata["managedFields"] = before if untimed(before) == untimed(entries) else entries
        new = {**new, "metadata": metadata}
        if new == live:
            return live
        if request.parameters.get("dryRun"):
            return new
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            running = target.resource.kind == "Pod" and metadata["deletionGracePeriodSeconds"]
            if not running:
                self._remove(target, new)
                return new
        return self._store(target, live, new)

    def _store(self, target: Target, live: Object | None, new: Object) -> Object:
        self.history.version += 1
        metadata = {**new["metadata"], "resourceVersion": str(self.version)}
        # Through JSON: a caller that changes its copy must not change ours.
        new = msgspec.json.decode(msgspec.json.encode({**new, "metadata": metadata}))
        self._objects[target.resource][target.key] = new
        self._record(target.resource, live, new)
        return new

    def _remove(self, target: Target, live: Object) -> None:
        self.history.version += 1
        del self._objects[target.resource][target.key]
        self._record(target.resource, live, None)

    def _record(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        self.history.record(resource, old, new)
        for callback in self.changed if resource != kinds.LEASE else ():
            callback()

    def _now(self) -> str:
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    # Watches.

    def watch(self, path: str, parameters: Mapping[str, str]) -> AsyncIterator[bytes]:
        return self.history.watch(self._target(path), parameters)

    def cut_watches(self) -> None:
        """End every watch."""
        self.history.cut_watches()

    def forget_history(self) -> None:
        """Compact: a watch from an older version than the current one is answered 410."""
        self.history.compact()
        self._snapshots.clear()


def _name(target: Target) -> str:
    """As error messages name an object: `deployments.apps "name"`."""
    resource = target.resource
    plural = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    return f'{plural} "{target.name}"'


def random_latency(seed: int, longest: float) -> Callable[[], float]:
    numbers = random.Random(seed)
    return lambda: numbers.uniform(0.0, longest)
