"""What a rendering depends on beside the Federation itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    namespace: str = "default"
    """Where a Federation goes that names no namespace."""
