"""Acts on the objects that a Federation is made of."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..fleet.placing import Outcome as Placing
from ..kube.applied import mark, marked, sole_manager, with_live_selector
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import ROLE_BINDING, SERVICE_ACCOUNT
from ..render import Facts
from ..render.metadata import MANAGER
from ..status.observation import Fault
from ..status.observed import Federation, Metadata
from .actions import (
    APPLIED,
    Action,
    Create,
    Existing,
    Remove,
    Update,
    Wait,
    decide,
    first_mark,
    needs_replacement,
    replacement,
)
from .caches import Caches
from .desired import CHILDREN, Desired, Identity, Part, Wanted, desired_of
from .transitions import Transition, replaced

# An answer that says no more than "not now" is worth telling only if it keeps coming.
PATIENCE = 3


@dataclass
class Outcome:
    """What was done about a Federation's children."""

    done: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    retry: float | None = None

    def merge(self, placing: Placing) -> None:
        """What was done about other clusters too."""
        self.done += placing.done
        self.pending += placing.pending
        self.faults += [Fault("Refused", words) for words in placing.refused]
        if placing.retry is not None:
            self.again(placing.retry)

    def again(self, seconds: float = 0.0) -> None:
        self.retry = max(self.retry or 0.0, seconds)


class Children:
    """Acts on the children of one Federation."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        federation: Federation,
        bodies: dict[Identity, dict[str, Any]],
        attempts: int,
        facts: Facts,
    ) -> None:
        self._client = client
        self._caches = caches
        self._federation = federation
        self._facts = facts
        self._namespace = federation.metadata.namespace
        self._bodies = bodies
        self._attempts = attempts
        self._outcome = Outcome()

    async def care(self, desired: Desired, held: Collection[Part]) -> Outcome:
        existing: Mapping[Identity, Existing] = self._caches.children(self._federation.metadata.uid)
        for action in decide(desired.children, existing, held):
            if not self._binds_stranger(action):
                await self._attempt(action)
        for name, uid in self._bindings_of_strangers():
            await self._attempt(Remove(ROLE_BINDING.kind, name, uid, "Background"))
        return self._outcome

    def _binds_stranger(self, action: Action) -> bool:
        """Whether a role would be bound to an account that is not ours: both have one name."""
        if not isinstance(action, Create | Update) or action.wanted.kind != ROLE_BINDING.kind:
            return False
        account = (SERVICE_ACCOUNT.kind, action.wanted.name)
        return account not in self._caches.children(self._federation.metadata.uid)

    def _bindings_of_strangers(self) -> list[tuple[str, str]]:
        """Name and uid of each RoleBinding whose account was replaced by one that is not ours."""
        children = self._caches.children(self._federation.metadata.uid)
        return [
            (name, child.metadata.uid)
            for (kind, name), child in children.items()
            if kind == ROLE_BINDING.kind
            and (SERVICE_ACCOUNT.kind, name) not in children
            and not child.metadata.deletion_timestamp
        ]

    async def _attempt(self, action: Action) -> None:
        try:
            await self._act(action)
        except ApiError as error:
            await self._note(action, error)

    async def _act(self, action: Action) -> None:
        match action:
            case Create(wanted):
                await self._create(wanted)
            case Update():
                await self._update(action)
            case Remove(kind, name, uid, propagation):
                await self._remove(kind, name, uid, propagation)
                self._outcome.pending.append(f"{kind} {name}")
            case Wait(kind, name):
                self._outcome.pending.append(f"{kind} {name}")

    async def _create(self, wanted: Wanted) -> None:
        kind, name = wanted.identity
        body = marked(self._body(wanted.identity), APPLIED, first_mark(wanted))
        try:
            self._caches.put(kind, await self._client.apply_new(CHILDREN[kind], body))
        except ApiError as error:
            if error.code != 409:
                raise
            await self._look_at_namesake(wanted)
        else:
            self._outcome.done.append(f"created {kind} {name}")

    async def _look_at_namesake(self, wanted: Wanted) -> None:
        """The name is taken: by a child of ours that the cache does not know, or by a stranger."""
        kind, name = wanted.identity
        answer = await self._client.get(CHILDREN[kind].path(self._namespace, name))
        found = msgspec.json.decode(answer, type=_Namesake).metadata
        if found.owner is None or found.owner.uid != self._federation.metadata.uid:
            message = (
                f"{kind} {name} already exists and is not owned by this Federation; left unchanged"
            )
            self._outcome.faults.append(Fault("NameTaken", message))
            self._outcome.again()
        elif found.deletion_timestamp:
            self._outcome.pending.append(f"{kind} {name}")
            self._outcome.again()
        else:
            foreign = APPLIED not in found.annotations
            await self._update(Update(wanted, found.uid, found.generation, foreign))

    async def _update(self, action: Update) -> None:
        identity, digest = action.wanted.identity, action.wanted.digest
        if action.foreign:
            await self._take_over(identity)
        note = mark(digest, action.generation)
        try:
            counted = await self._apply(identity, action.uid, note)
        except ApiError as error:
            if not needs_replacement(error) or not await self._keep_selector(identity):
                raise
            counted = await self._apply(identity, action.uid, note)
        if counted != action.generation:  # only metadata changed, or someone else had a hand in it
            await self._apply(identity, action.uid, mark(digest, counted))
        self._outcome.done.append("applied {} {}".format(*identity))

    async def _take_over(self, identity: Identity) -> None:
        """Make everything in an object ours, so that what is not wanted goes with the apply."""
        kind, name = identity
        path = CHILDREN[kind].path(self._namespace, name)
        metadata = msgspec.json.decode(await self._client.get(path))["metadata"]
        owners = sole_manager(metadata["managedFields"], MANAGER)
        await self._client.patch_managers(path, metadata["resourceVersion"], owners)

    async def _keep_selector(self, identity: Identity) -> bool:
        """Whether the workload can be updated with the selector that it has, which is then done:
        its pods need not be recreated for a selector."""
        kind, name = identity
        answer = await self._client.get(CHILDREN[kind].path(self._namespace, name))
        body = with_live_selector(msgspec.json.decode(answer), self._body(identity))
        if body:
            self._bodies[identity] = body
        return body is not None

    async def _apply(self, identity: Identity, uid: str, note: str) -> int:
        """Apply to exactly this object; returns its generation."""
        body = self._body(identity)
        body = {**body, "metadata": {**body["metadata"], "uid": uid}}
        answer = await self._client.apply(CHILDREN[identity[0]], marked(body, APPLIED, note))
        return self._caches.put(identity[0], answer).generation

    async def _remove(self, kind: str, name: str, uid: str, propagation: str) -> None:
        answer = await self._client.delete(CHILDREN[kind], self._namespace, name, uid, propagation)
        if msgspec.json.decode(answer, type=_Kind).kind == kind:  # there until its pods are gone
            self._caches.put(kind, answer)
        self._outcome.done.append(f"removed {kind} {name}")

    async def _replace(self, action: Update, error: ApiError) -> None:
        kind, name = action.wanted.identity
        path = CHILDREN[kind].path(self._namespace, name)
        current = msgspec.json.decode(await self._client.get(path))
        propagation = replacement(current, self._body(action.wanted.identity))
        await self._remove(kind, name, action.uid, propagation)
        self._outcome.transitions.append(replaced(f"{kind} {name}", propagation, error.message))
        self._outcome.pending.append(f"{kind} {name}")

    def _body(self, identity: Identity) -> dict[str, Any]:
        if not self._bodies:
            _, self._bodies = desired_of(self._federation, self._facts)
        return self._bodies[identity]

    async def _note(self, action: Action, error: ApiError) -> None:
        """What a refusal means for this Federation, and whether to try again."""
        title = _title(action)
        if isinstance(action, Update) and needs_replacement(error):
            await self._replace(action, error)
        elif isinstance(action, Remove) and error.code == 404:
            pass
        elif error.code in (404, 409) or "metadata.uid" in error.message:
            # It changed under our hands; the watch will tell how.
            self._outcome.pending.append(title)
            self._outcome.again()
        elif error.final or self._attempts >= PATIENCE:
            self._outcome.faults.append(Fault("Refused", f"{title}: {error.message}"))
            self._outcome.again(error.retry_after)
        else:
            self._outcome.pending.append(title)
            self._outcome.again(error.retry_after)


class _Kind(msgspec.Struct):
    kind: str = ""


class _Namesake(msgspec.Struct):
    metadata: Metadata


def _title(action: Action) -> str:
    if isinstance(action, Create | Update):
        return f"{action.wanted.kind} {action.wanted.name}"
    return f"{action.kind} {action.name}"
