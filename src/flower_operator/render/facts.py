"""What a rendering depends on beside the Federation itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    namespace: str = "default"
    """Where a Federation goes that names no namespace."""
    operator_namespace: str = "flower-operator-system"
    """Where the operator's own pods are, which ask SuperLinks who is connected."""
    openshift: bool = False
    """Whether the cluster itself gives pods their users and groups."""
