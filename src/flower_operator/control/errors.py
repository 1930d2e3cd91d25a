"""Why a SuperLink did not do what it was asked."""

from ..flower.control import Refusal


class ControlError(RuntimeError):
    """A question to a SuperLink came to nothing; the text says why."""


class Unreachable(ControlError):
    """The SuperLink did not answer, or not sensibly."""


class BadAnswer(Unreachable):
    """It answered, but not as a SuperLink does."""


class Refused(ControlError):
    """The SuperLink answered, and said no."""

    def __init__(self, refusal: Refusal, message: str = "") -> None:
        super().__init__(message or refusal.message)
        self.refusal = refusal


class InvalidKey(Refused):
    """What was to be registered is not a public key that flwr takes."""


class AlreadyRegistered(Refused):
    """The key belongs to a SuperNode that is registered, under `node_id`."""

    def __init__(self, refusal: Refusal, node_id: int) -> None:
        super().__init__(refusal, f"the key is registered already, as SuperNode {node_id}")
        self.node_id = node_id


class KeyRetired(Refused):
    """The key was unregistered once; flwr takes no key a second time."""


class UnknownNode(Refused):
    """No SuperNode has this id, or none has it any more."""
