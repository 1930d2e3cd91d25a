"""Where a Federation's trust lies: a few objects of its namespace, and the files in each.

Every object made here has a record beside its files, so that whoever decides about them needs
no library that can read certificates, and a file that someone changed is noticed.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..api.rules import pool_name

Files = Mapping[str, str]

BUNDLE_FILE = "ca.crt"
CERTIFICATE_FILE = "tls.crt"
KEY_FILE = "tls.key"
SERVER_FILES = (BUNDLE_FILE, CERTIFICATE_FILE, KEY_FILE)
MAX_KEY_BYTES = 4 << 10
"""An RSA key of 4096 bits has 3.2 KiB. To check one of 14,112 bits takes 20 seconds and more."""
MAX_CHAIN_BYTES = 64 << 10
MAX_BUNDLE_BYTES = 256 << 10
"""More than the CAs of a whole operating system."""
SECRET_FILE = "secret"
RECORD_FILE = "record.json"


class Part(StrEnum):
    """An object, by what its name ends in."""

    AUTHORITIES = "ca-key"
    """A Secret that no pod mounts: the CA's key, and its certificate; of two, in a rotation. Beside
    them what the CA before signed for it."""
    BUNDLE = "ca"
    """A ConfigMap that clients mount: the certificates that they trust."""
    SERVER = "superlink-tls"
    """A Secret that the SuperLink mounts: its certificate and key, and its CA's certificate."""
    SUPEREXEC = "superexec"
    """A Secret that the SuperLink and the SuperExec for ServerApps mount. Pools have others."""
    SUPERNODE = "supernode-tls"
    """A Secret that SuperNodes mount whose own API has TLS, with what the SuperLink's has."""

    def object_name(self, federation: str) -> str:
        return f"{federation}-{self}"

    @property
    def is_secret(self) -> bool:
        return self is not Part.BUNDLE


@dataclass(frozen=True)
class Stored:
    """The files of what TLS needs; empty where there is no such object."""

    authorities: Files = field(default_factory=dict)
    bundle: Files = field(default_factory=dict)
    server: Files = field(default_factory=dict)
    supernode: Files = field(default_factory=dict)

    def of(self, part: Part) -> Files:
        return {
            Part.AUTHORITIES: self.authorities,
            Part.BUNDLE: self.bundle,
            Part.SERVER: self.server,
            Part.SUPERNODE: self.supernode,
        }[part]


_POOL_SECRET = "superexec"


def pool_secret_name(federation: str, pool: str) -> str:
    """Of the Secret that a pool's SuperNodes and SuperExecs share, and nobody else: a ClientApp can
    read it, so it must not open the SuperLink's runtime API."""
    return f"{pool_name(federation, pool)}-{_POOL_SECRET}"


def pool_of_secret(federation: str, name: str) -> str | None:
    """The pool whose Secret has that name; None if it is no such Secret."""
    before, _, after = pool_secret_name(federation, "*").partition("*")
    if not name.startswith(before) or not name.endswith(after):
        return None
    return name.removeprefix(before).removesuffix(after) or None


def authority_key_file(identity: str) -> str:
    return f"{identity[:16]}.key"


def voucher_file(identity: str) -> str:
    """What the CA before it signed for this one."""
    return f"{identity[:16]}.crt"


def decode_secret(data: Any) -> dict[str, str]:
    """The files of a Secret's `data`; what is no base64 of a text is left out."""
    files = {}
    for name, value in data.items() if isinstance(data, Mapping) else ():
        try:
            files[str(name)] = base64.b64decode(value, validate=True).decode()
        except (TypeError, ValueError, binascii.Error):
            continue
    return files


def encode_secret(files: Files) -> dict[str, str]:
    """Files as a Secret's `data`."""
    return {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
