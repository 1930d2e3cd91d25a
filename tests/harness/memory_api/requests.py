"""Requests to the in-memory API server, what goes wrong with them, and errors as answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flower_operator.kube.resources import Resource

from .field_managers import Object

Key = tuple[str, str]
"""Namespace and name."""


class Refused(Exception):
    """An answer with an error code."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    @property
    def status(self) -> Object:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": self.reason,
            "message": str(self),
            "code": self.code,
        }


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request."""

    code: int = 0
    """The answer, without the request being carried out."""
    lost: bool = False
    """The request is carried out, and no answer arrives."""
    seconds: float = 0.0
    """How much later the request arrives."""


@dataclass
class Request:
    method: str
    path: str
    manager: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content: str = ""
    time: float = 0.0
    code: int = 0
    """The answer; 0: none arrived."""

    @property
    def is_watch(self) -> bool:
        return "watch" in self.parameters

    @property
    def is_write(self) -> bool:
        """Whether it changes anything but the Lease of the leader election."""
        return self.method != "GET" and "/leases" not in self.path


@dataclass(frozen=True)
class Target:
    """What a path leads to."""

    resource: Resource
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        return self.namespace, self.name
