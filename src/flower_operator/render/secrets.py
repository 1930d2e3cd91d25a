"""Where a secure Federation's certificates and keys are, and how its pods mount them."""

from typing import Any

from ..api.types import Federation
from ..flower.commands import ServerCertificate
from ..flower.dialects import Dialect
from ..trust.layout import BUNDLE_FILE, CERTIFICATE_FILE, KEY_FILE, SECRET_FILE, Part

Object = dict[str, Any]

FOLDER = "/etc/flower"
SERVER_CERTIFICATE = ServerCertificate(
    authority=f"{FOLDER}/tls/{BUNDLE_FILE}",
    certificate=f"{FOLDER}/tls/{CERTIFICATE_FILE}",
    key=f"{FOLDER}/tls/{KEY_FILE}",
)
ROOT_CERTIFICATES = f"{FOLDER}/ca/{BUNDLE_FILE}"
SUPEREXEC_SECRET = f"{FOLDER}/superexec/{SECRET_FILE}"


def superexec_secret(federation: Federation, dialect: Dialect) -> str | None:
    """The file of the secret that a SuperExec and its owner share, where they do."""
    wanted = not federation.spec.insecure and federation.spec.isolation_mode == "process"
    return SUPEREXEC_SECRET if wanted and dialect.superexec_secret else None


def server_certificate_volume(federation: str) -> Object:
    return {"name": "flower-tls", "secret": {"secretName": Part.SERVER.object_name(federation)}}


def authority_volume(federation: str) -> Object:
    return {"name": "flower-ca", "configMap": {"name": Part.BUNDLE.object_name(federation)}}


def superexec_secret_volume(federation: str) -> Object:
    return {
        "name": "flower-superexec",
        "secret": {"secretName": Part.SUPEREXEC.object_name(federation)},
    }


def mount(name: str) -> Object:
    return {"name": f"flower-{name}", "mountPath": f"{FOLDER}/{name}", "readOnly": True}
