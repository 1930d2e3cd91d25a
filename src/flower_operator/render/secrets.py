"""Where a secure Federation's certificates and keys are, and how its pods mount them."""

from typing import Any

from ..api.problems import Problem
from ..api.rules import pool_name
from ..api.types import Federation
from ..flower.commands import ServerCertificate
from ..flower.dialects import Dialect
from ..trust.keys import MOST_KEYS, keyring_name
from ..trust.layout import (
    BUNDLE_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    SECRET_FILE,
    SERVER_FILES,
    Part,
    pool_secret_name,
)
from ..trust.records import digest
from .facts import Facts, Identities
from .metadata import PREFIX
from .releases import PoolReleases

Object = dict[str, Any]

FOLDER = "/etc/flower"
CERTIFICATE = f"{PREFIX}/certificate"
AUTHORITY = f"{PREFIX}/authority"
SECRET = f"{PREFIX}/superexec-secret"
KEYS = f"{PREFIX}/keys"
GATE = f"{PREFIX}/key"
"""Holds a SuperNode's pod back until its key is registered."""
SUPERNODE = f"{PREFIX}/supernode-certificate"
SERVER_CERTIFICATE = ServerCertificate(
    authority=f"{FOLDER}/tls/{BUNDLE_FILE}",
    certificate=f"{FOLDER}/tls/{CERTIFICATE_FILE}",
    key=f"{FOLDER}/tls/{KEY_FILE}",
)
SUPERNODE_CERTIFICATE = ServerCertificate(
    authority=f"{FOLDER}/supernode-tls/{BUNDLE_FILE}",
    certificate=f"{FOLDER}/supernode-tls/{CERTIFICATE_FILE}",
    key=f"{FOLDER}/supernode-tls/{KEY_FILE}",
)
ROOT_CERTIFICATES = f"{FOLDER}/ca/{BUNDLE_FILE}"
SUPEREXEC_SECRET = f"{FOLDER}/superexec/{SECRET_FILE}"
PRIVATE_KEY = f"{FOLDER}/key"


def superexec_secret(federation: Federation, dialect: Dialect) -> str | None:
    """The file of the secret that a SuperExec and its owner share, where they do."""
    wanted = not federation.spec.insecure and federation.spec.isolation_mode == "process"
    return SUPEREXEC_SECRET if wanted and dialect.superexec_secret else None


def supernode_certificate(
    federation: Federation, releases: PoolReleases, facts: Facts
) -> ServerCertificate | None:
    """The files that a pool's own API has TLS with, where both sides of it can and the CA is the
    Federation's own, or one of that cluster. Elsewhere it is plain, on loopback."""
    spec = federation.spec
    if spec.insecure or spec.isolation_mode != "process":
        return None
    if not facts.site and (spec.tls.from_elsewhere or spec.superlink.external):
        return None
    serves = releases.supernode_dialect.runtime_certificate
    asks = releases.clientapp_dialect.superexec_root_certificates
    return SUPERNODE_CERTIFICATE if serves and asks else None


def name_notices(federation: Federation) -> list[str]:
    """Nodes are not the operator's to read, and which of them clients use nobody can tell."""
    spec = federation.spec
    if spec.insecure or spec.superlink.service.type != "NodePort" or spec.superlink.external:
        return []
    if spec.tls.secret_name or spec.tls.subject_alt_names:
        return []
    if spec.superlink.service.external_address:
        return []
    return [
        "spec.tls.subjectAltNames: name the addresses of the nodes by which clients reach the "
        "NodePort; the certificate is not for them"
    ]


def readable_key_notices(federation: Federation) -> list[str]:
    """For the status on a cluster: private keys that lie where app code runs."""
    spec, notices = federation.spec, []
    if spec.insecure or spec.isolation_mode == "process":
        return []
    if not spec.superlink.external and not spec.superlink.gateway.enabled:
        notices.append(
            "spec.isolationMode: in subprocess isolation ServerApps run in the SuperLink's "
            "container and can read the private key of its certificate; in process isolation "
            "they cannot"
        )
    if spec.supernode_auth.enabled:
        notices.append(
            "spec.supernodeAuth.allowSubprocess: ClientApps run in their SuperNode's container "
            "and can read its private key"
        )
    return notices


def superlink_annotations(
    facts: Facts, *, serves: bool, trusts: bool, shares: bool
) -> dict[str, str]:
    """On the SuperLink's pod: what it was started with. `serves`: with a certificate that is read
    only then; `trusts`: it is a client of itself."""
    found = facts.identities
    if found is None:
        return {}
    own = {CERTIFICATE: found.certificate} if serves else {}
    return own | _client(found, found.secret if shares else None, trusts=trusts)


def superexec_annotations(facts: Facts, *, trusts: bool, shares: bool) -> dict[str, str]:
    """The same for the SuperExec for ServerApps, where it has a pod of its own."""
    found = facts.identities
    return _client(found, found.secret if shares else None, trusts=trusts) if found else {}


def client_annotations(
    federation: Federation, facts: Facts, pool: str, *, shares: bool, serves: bool
) -> dict[str, str]:
    """The same for SuperNodes. `serves`: with TLS. What was made on another cluster stays."""
    found, external = facts.identities, federation.spec.superlink.external
    shares, serves = shares and not facts.site, serves and not facts.site
    own = {AUTHORITY: digest(external.ca or "")[:16]} if external else {}
    if found is None:
        return own
    own |= {SUPERNODE: found.supernode} if serves and found.supernode else {}
    secret = dict(found.pool_secrets).get(pool) if shares else None
    return _client(found, secret, trusts=external is None) | own


def key_annotations(facts: Facts, pool: str) -> dict[str, str]:
    """On SuperNodes with keys: the round of theirs."""
    if facts.site:
        return {KEYS: facts.site.keys}
    rounds = dict(facts.identities.keys) if facts.identities else {}
    return {KEYS: rounds[pool]} if pool in rounds else {}


def gates(federation: Federation, facts: Facts) -> Object:
    """Of pods with keys, where there is an operator to open them, or an agent."""
    attended = facts.site or facts.identities is not None
    if federation.spec.superlink.external or not attended:
        return {}
    return {"schedulingGates": [{"name": GATE}]}


def _client(found: Identities, secret: str | None, *, trusts: bool) -> dict[str, str]:
    authority = {AUTHORITY: found.authority} if trusts else {}
    return authority | ({SECRET: secret} if secret else {})


def server_certificate_volume(federation: Federation) -> Object:
    """Of a Secret that is not ours, the files that there must be and no others."""
    own = Part.SERVER.object_name(federation.name)
    if not (name := federation.spec.tls.secret_name):
        return {"name": "flower-tls", "secret": {"secretName": own}}
    items = [{"key": file, "path": file} for file in SERVER_FILES]
    return {"name": "flower-tls", "secret": {"secretName": name, "items": items}}


def supernode_certificate_volume(federation: str) -> Object:
    return {
        "name": "flower-supernode-tls",
        "secret": {"secretName": Part.SUPERNODE.object_name(federation)},
    }


def authority_name(federation: Federation) -> str:
    """Of the ConfigMap with what SuperNodes trust."""
    if federation.spec.superlink.external:
        return f"{federation.name}-external-ca"
    return Part.BUNDLE.object_name(federation.name)


def authority_volume(federation: Federation) -> Object:
    return {"name": "flower-ca", "configMap": {"name": authority_name(federation)}}


def site_authority_name(federation: str, pool: str) -> str:
    """Of the CA's certificates on another cluster, which may be the hub itself."""
    return f"{pool_name(federation, pool)}-ca"


def site_authority_volume(federation: str, pool: str) -> Object:
    return {"name": "flower-ca", "configMap": {"name": site_authority_name(federation, pool)}}


def runtime_name(federation: str, pool: str) -> str:
    """Of the Secret by which SuperNodes and SuperExecs of another cluster know each other."""
    return f"{pool_name(federation, pool)}-runtime"


def runtime_volume(federation: str, pool: str, name: str, *files: str) -> Object:
    """Some files of it, as one of the volumes that there are beside the SuperLink."""
    items = [{"key": file, "path": file} for file in files]
    secret = {"secretName": runtime_name(federation, pool), "items": items}
    return {"name": f"flower-{name}", "secret": secret}


def superexec_secret_volume(federation: str, pool: str | None = None) -> Object:
    """Of the SuperLink's own, or of a pool's."""
    own = Part.SUPEREXEC.object_name(federation)
    name = pool_secret_name(federation, pool) if pool else own
    return {"name": "flower-superexec", "secret": {"secretName": name}}


def keys_volume(federation: str, pool: str) -> Object:
    return {"name": "flower-keys", "secret": {"secretName": keyring_name(federation, pool)}}


def key_mount(owner: str) -> Object:
    """Of all keys of the pool just the one of this pod, which the variable `owner` names."""
    return {
        "name": "flower-keys",
        "mountPath": PRIVATE_KEY,
        "subPathExpr": f"$({owner})",
        "readOnly": True,
    }


def key_problems(federation: Federation) -> list[Problem]:
    if not federation.spec.supernode_auth.enabled:
        return []
    return [
        Problem(
            f"spec.supernodes.pools[{at}].replicas",
            f"{pool.replicas} is too much for one pool with supernodeAuth; {MOST_KEYS} is the most",
        )
        for at, pool in enumerate(federation.spec.supernodes.pools)
        if (pool.replicas or 0) > MOST_KEYS
    ]


def mount(name: str) -> Object:
    return {"name": f"flower-{name}", "mountPath": f"{FOLDER}/{name}", "readOnly": True}
