"""cert-manager at work on a control plane."""

from typing import Self

from .binaries import binary, source_folder
from .control_plane import ControlPlane
from .processes import ProcessGroup

_MODULE = "github.com/cert-manager/cert-manager"


class CertManager:
    """Its kinds and its controllers, from entering a with-block until leaving it. The kinds stay.

    Not its webhook: that refuses what the schema of its kinds lets pass.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def __enter__(self) -> Self:
        kinds = str(source_folder(_MODULE, "certmanager") / "deploy/crds")
        self._plane.kubectl("apply", "--server-side", "-f", kinds)
        self._plane.kubectl("wait", "--for=condition=established", "-f", kinds)
        self._group = ProcessGroup()
        self._group.__enter__()
        environment = ["env", f"KUBECONFIG={self._plane.kubeconfig}"]
        self._group.start("cert-manager", [*environment, str(binary("cert-manager"))])
        return self

    def __exit__(self, *_: object) -> None:
        self._group.__exit__()
