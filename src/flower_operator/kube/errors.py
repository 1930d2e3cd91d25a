"""What can go wrong between us and the API server."""

import msgspec


class ApiError(Exception):
    """The API server's refusal, in its own words."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        """Seconds that the server asked to wait before the next attempt."""

    @property
    def final(self) -> bool:
        """Whether the same request would be refused again: not a matter of load or timing."""
        return 400 <= self.code < 500 and self.code not in (401, 408, 409, 410, 429)


class Unreachable(Exception):
    """No answer came; whether the request was carried out is not known."""


class NotLeader(Exception):
    """A write was held back because another replica may be leading by now."""


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float = 0.0


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


def error_of(code: int, body: bytes, retry_after: str = "") -> ApiError:
    """The error that an answer stands for, whoever on the way gave it."""
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        status = _Status(message=body[:200].decode(errors="replace").strip())
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
    if status.details:
        seconds = max(seconds, status.details.retry_after_seconds)
    message = status.message or f"the API server answered {code}"
    return ApiError(status.code or code, status.reason, message, seconds)
