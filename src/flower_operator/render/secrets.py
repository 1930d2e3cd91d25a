"""Where a secure Federation's certificates and keys are, and how its pods mount them."""

from typing import Any

from ..api.types import Federation
from ..flower.commands import ServerCertificate
from ..flower.dialects import Dialect

Object = dict[str, Any]

FOLDER = "/etc/flower"
SERVER_CERTIFICATE = ServerCertificate(
    authority=f"{FOLDER}/tls/ca.crt",
    certificate=f"{FOLDER}/tls/tls.crt",
    key=f"{FOLDER}/tls/tls.key",
)
ROOT_CERTIFICATES = f"{FOLDER}/ca/ca.crt"
SUPEREXEC_SECRET = f"{FOLDER}/superexec/secret"


def superexec_secret(federation: Federation, dialect: Dialect) -> str | None:
    """The file of the secret that a SuperExec and its owner share, where they do."""
    wanted = not federation.spec.insecure and federation.spec.isolation_mode == "process"
    return SUPEREXEC_SECRET if wanted and dialect.superexec_secret else None


def server_certificate_volume(federation: str) -> Object:
    return {"name": "flower-tls", "secret": {"secretName": f"{federation}-superlink-tls"}}


def authority_volume(federation: str) -> Object:
    return {"name": "flower-ca", "configMap": {"name": f"{federation}-ca"}}


def superexec_secret_volume(federation: str) -> Object:
    return {"name": "flower-superexec", "secret": {"secretName": f"{federation}-superexec"}}


def mount(name: str) -> Object:
    return {"name": f"flower-{name}", "mountPath": f"{FOLDER}/{name}", "readOnly": True}
