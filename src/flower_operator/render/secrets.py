"""Where a secure Federation's certificates and keys are, and how its pods mount them."""

from typing import Any

from ..api.types import Federation
from ..flower.commands import ServerCertificate
from ..flower.dialects import Dialect
from ..trust.layout import BUNDLE_FILE, CERTIFICATE_FILE, KEY_FILE, SECRET_FILE, Part
from .facts import Facts, Identities
from .metadata import PREFIX

Object = dict[str, Any]

FOLDER = "/etc/flower"
CERTIFICATE = f"{PREFIX}/certificate"
AUTHORITY = f"{PREFIX}/authority"
SECRET = f"{PREFIX}/superexec-secret"
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


def superlink_annotations(facts: Facts, *, trusts: bool, shares: bool) -> dict[str, str]:
    """On the SuperLink's pod: what it was started with. `trusts`: it is a client of itself."""
    found = facts.identities
    if found is None:
        return {}
    return {CERTIFICATE: found.certificate} | _client(found, trusts=trusts, shares=shares)


def client_annotations(facts: Facts, *, shares: bool) -> dict[str, str]:
    """The same for SuperNodes."""
    found = facts.identities
    return _client(found, trusts=True, shares=shares) if found else {}


def _client(found: Identities, *, trusts: bool, shares: bool) -> dict[str, str]:
    authority = {AUTHORITY: found.authority} if trusts else {}
    secret = {SECRET: found.secret} if shares and found.secret else {}
    return authority | secret


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
