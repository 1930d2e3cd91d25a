"""What is known of stored certificates and secrets, read without a library for them."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from .layout import (
    BUNDLE_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    MAX_KEY_BYTES,
    RECORD_FILE,
    SECRET_FILE,
    Files,
    Part,
    Stored,
    authority_key_file,
    voucher_file,
)

BACKDATED = timedelta(minutes=5)
"""Certificates begin this long before they are made, for peers whose clocks are behind."""
RENEWAL = 2 / 3
"""The part of its life after which something is renewed."""
URGENCY = 11 / 12
"""The part after which it is renewed even if a run is disturbed."""

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_LAST_YEAR = 9000


class Unreadable(ValueError):
    """Stored data is not what was written; the text says in what way."""


@dataclass(frozen=True)
class Life:
    not_before: datetime
    not_after: datetime

    def valid_at(self, now: datetime) -> bool:
        return self.not_before <= now < self.not_after

    @property
    def made(self) -> datetime:
        return self.not_before + BACKDATED

    @property
    def renewal(self) -> datetime:
        return self.not_before + (self.not_after - self.not_before) * RENEWAL

    @property
    def urgency(self) -> datetime:
        return self.not_before + (self.not_after - self.not_before) * URGENCY


@dataclass(frozen=True)
class Voucher(Life):
    """A second certificate of a CA, by the one before it. Served along, it leads those who know the
    old one alone to the new one, for as long as the old one lasts."""

    identity: str
    authority: str
    """Identity of the CA that signed it."""


@dataclass(frozen=True)
class Authority(Life):
    """A CA that clients trust, or will."""

    identity: str
    """SHA-256 of its certificate, as `openssl x509 -fingerprint -sha256` has it."""
    key_digest: str | None = None
    """None: it cannot sign, for its key is lost."""
    voucher: Voucher | None = None
    """None: who does not know it cannot follow."""
    called: bool = True
    """Whether clients that are known are to be started with it."""


@dataclass(frozen=True)
class Certificate(Life):
    """What the SuperLink, or a SuperNode, serves with."""

    identity: str
    authority: str
    """Identity of the CA that signed it."""
    names: tuple[str, ...]
    lacking: datetime | None = None
    """Since when it is to be for more names than these, where that had to be noted."""
    voucher: str | None = None
    """Identity of the one for its CA that is served along."""


@dataclass(frozen=True)
class State:
    """What is in the objects of TLS."""

    authorities: tuple[Authority, ...] = ()
    """Oldest first."""
    published: tuple[str, ...] | None = None
    """Identities of the CAs that clients find in their bundle; None if that is unreadable."""
    certificate: Certificate | None = None
    supernode: Certificate | None = None
    faults: Mapping[Part, str] = field(default_factory=dict)
    """What is there and unreadable, in words."""

    @property
    def newest(self) -> Authority | None:
        """The CA that clients must know in the end."""
        return self.authorities[-1] if self.authorities else None

    @property
    def called(self) -> Authority | None:
        """The newest that clients are started with; pods are told by it what that was."""
        return next((each for each in reversed(self.authorities) if each.called), self.newest)

    def authority(self, identity: str) -> Authority | None:
        return next((each for each in self.authorities if each.identity == identity), None)


@dataclass(frozen=True)
class Given:
    """A certificate for the SuperLink that was made elsewhere."""

    certificate: Certificate
    secret: str
    """Where it is, by name."""
    version: str
    """Of the Secret's content, to tell when that is another."""
    trusted: tuple[str, ...]
    """Identities of the CAs that came with it."""
    since: datetime
    """Pods are to be started with it from then on, once no run is under way."""
    until: datetime
    """From then on they are in any case."""

    @property
    def trust(self) -> str:
        """What its clients were started with: its CA, or all of them in a word."""
        return self.trusted[0] if len(self.trusted) == 1 else digest("".join(self.trusted))


@dataclass(frozen=True)
class Secret:
    """The secret that a SuperExec and its owner share."""

    made: datetime
    identity: str
    """Tells secrets apart without telling them."""


def read_state(stored: Stored) -> State:
    """Whatever is in the objects; what cannot be read is a fault, not an error."""
    faults: dict[Part, str] = {}
    authorities: tuple[Authority, ...] = ()
    published: tuple[Authority, ...] | None = None
    certificates: dict[Part, Certificate] = {}
    if stored.bundle:
        try:
            published = _read_bundle(stored.bundle)
        except Unreadable as error:
            faults[Part.BUNDLE] = str(error)
    if stored.authorities:
        try:
            authorities, lost = _read_authorities(stored.authorities)
            if lost:
                faults[Part.AUTHORITIES] = lost
        except Unreadable as error:
            faults[Part.AUTHORITIES] = str(error)
    if not authorities:
        # Clients go on trusting what they trust until they have been given something else.
        authorities = published or ()
    for part in (Part.SERVER, Part.SUPERNODE):
        if stored.of(part):
            try:
                certificates[part] = _read_certificate(stored.of(part))
            except Unreadable as error:
                faults[part] = str(error)
    return State(
        authorities,
        None if published is None else tuple(each.identity for each in published),
        certificates.get(Part.SERVER),
        certificates.get(Part.SUPERNODE),
        faults,
    )


def read_given(bundle: Files) -> Given | None:
    """What is known of a certificate from elsewhere by the clients' bundle, if anything is."""
    try:
        _read_bundle(bundle)
        record = read_record(bundle).get("given")
        if not isinstance(record, dict):
            return None
        trusted = record.get("trusted")
        if not isinstance(trusted, list):
            return None
        return Given(
            _certificate(record),
            read_word(record, "secret"),
            read_word(record, "version"),
            tuple(map(str, trusted)),
            read_time(record, "since"),
            read_time(record, "until"),
        )
    except Unreadable:
        return None


def read_secret(files: Files) -> Secret | None:
    """The stored secret, or None if there is none; raises Unreadable."""
    if not files:
        return None
    record = read_record(files)
    found = digest(files.get(SECRET_FILE, ""))
    if record.get("secret") != found:
        raise Unreadable(f"{SECRET_FILE} is not what was written")
    return Secret(read_time(record, "made"), found)


def authorities_files(
    certificates: Sequence[str],
    authorities: Sequence[Authority],
    keys: Mapping[str, str],
    vouchers: Mapping[str, str],
) -> dict[str, str]:
    """The object of the CAs: their certificates, and by identity their keys and vouchers."""
    files = {authority_key_file(identity): key for identity, key in keys.items()}
    files |= {voucher_file(identity): text for identity, text in vouchers.items()}
    return files | _bundle(certificates, authorities)


def called_files(files: Files) -> dict[str, str]:
    """The same CAs, with the note that clients are to be started with all of them."""
    record = read_record(files)
    entries = [entry | {"called": True} for entry in record["authorities"]]
    return {**files, RECORD_FILE: json_text(record | {"authorities": entries})}


def bundle_files(certificates: Sequence[str], authorities: Sequence[Authority]) -> dict[str, str]:
    """The bundle of clients."""
    bare = [Authority(each.not_before, each.not_after, each.identity) for each in authorities]
    return _bundle(certificates, bare)


def given_files(
    certificates: Sequence[str], authorities: Sequence[Authority], given: Given
) -> dict[str, str]:
    """The bundle of clients, with what is known of the certificate from elsewhere."""
    record = _certificate_record(given.certificate) | {
        "secret": given.secret,
        "version": given.version,
        "trusted": list(given.trusted),
        "since": time_text(given.since),
        "until": time_text(given.until),
    }
    return _bundle(certificates, authorities, given=record)


def server_files(
    certificate: str, voucher: str, key: str, authority: str, record: Certificate
) -> dict[str, str]:
    content = _certificate_record(record) | {"key": digest(key), "voucher": record.voucher}
    return {
        BUNDLE_FILE: authority,
        CERTIFICATE_FILE: certificate + voucher,
        KEY_FILE: key,
        RECORD_FILE: json_text(content),
    }


def noted_files(files: Files, now: datetime) -> dict[str, str]:
    """The same certificate, with the note that it lacks names from now on, or without it."""
    record = read_record(files)
    if record.pop("lacking", None) is None:
        record["lacking"] = time_text(now)
    return {**files, RECORD_FILE: json_text(record)}


def secret_files(secret: str, now: datetime) -> dict[str, str]:
    content = {"made": time_text(now), "secret": digest(secret)}
    return {SECRET_FILE: secret, RECORD_FILE: json_text(content)}


def split_bundle(text: str) -> dict[str, str]:
    """The certificates of a PEM text by identity, in their order."""
    return {_identity(match[1]): f"{match[0]}\n" for match in _BLOCK.finditer(text)}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def whole_second(time: datetime) -> datetime:
    """As certificates keep it."""
    return time.astimezone(UTC).replace(microsecond=0)


def _read_bundle(files: Files) -> tuple[Authority, ...]:
    """The CAs of an object, if its certificates are those of its record."""
    entries = read_record(files).get("authorities")
    if not isinstance(entries, list) or not entries:
        raise Unreadable(f"{RECORD_FILE} names no CA")
    found = tuple(_read_authority(entry) for entry in entries)
    _check(files, BUNDLE_FILE, [each.identity for each in found])
    return found


def _read_authorities(files: Files) -> tuple[tuple[Authority, ...], str]:
    """The CAs, and what is wrong with their keys: whose key is lost is trusted all the same."""
    found, lost = [], ""
    for each in _read_bundle(files):
        file = authority_key_file(each.identity)
        key = files.get(file, "")
        if each.key_digest and (digest(key) != each.key_digest or len(key) > MAX_KEY_BYTES):
            lost = f"{file} is not what was written"
            each = replace(each, key_digest=None)
        if each.voucher and not _holds(files, voucher_file(each.identity), [each.voucher.identity]):
            each = replace(each, voucher=None)
        found.append(each)
    return tuple(found), lost


def _read_authority(entry: Any) -> Authority:
    if not isinstance(entry, dict):
        raise Unreadable(f"{RECORD_FILE} has something else where a CA should be")
    key, voucher = entry.get("key"), entry.get("voucher")
    return Authority(
        *_times(entry),
        read_word(entry, "certificate"),
        key if isinstance(key, str) else None,
        _read_voucher(voucher) if isinstance(voucher, dict) else None,
        entry.get("called") is not False,
    )


def _read_voucher(entry: dict[str, Any]) -> Voucher:
    return Voucher(*_times(entry), read_word(entry, "certificate"), read_word(entry, "authority"))


def _read_certificate(files: Files) -> Certificate:
    record = read_record(files)
    found = _certificate(record)
    _check(files, CERTIFICATE_FILE, [each for each in (found.identity, found.voucher) if each])
    _check(files, BUNDLE_FILE, [found.authority])
    if digest(files.get(KEY_FILE, "")) != record.get("key"):
        raise Unreadable(f"{KEY_FILE} is not what was written")
    return found


def _certificate(record: dict[str, Any]) -> Certificate:
    names = record.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unreadable(f"{RECORD_FILE} has no names")
    return Certificate(
        *_times(record),
        read_word(record, "certificate"),
        read_word(record, "authority"),
        tuple(names),
        read_time(record, "lacking") if "lacking" in record else None,
        read_word(record, "voucher") if record.get("voucher") else None,
    )


def _check(files: Files, file: str, identities: list[str]) -> None:
    if not _holds(files, file, identities):
        raise Unreadable(f"{file} is not what was written")


def _holds(files: Files, file: str, identities: list[str]) -> bool:
    """Whether these certificates are in the file, and nothing else is."""
    text = files.get(file, "")
    found = split_bundle(text)
    return list(found) == identities and "".join(found.values()) == text


def _bundle(
    certificates: Sequence[str], authorities: Sequence[Authority], **more: object
) -> dict[str, str]:
    content = {"authorities": [_authority_record(each) for each in authorities], **more}
    return {BUNDLE_FILE: "".join(certificates), RECORD_FILE: json_text(content)}


def _identity(body: str) -> str:
    try:
        return hashlib.sha256(base64.b64decode("".join(body.split()), validate=True)).hexdigest()
    except (ValueError, binascii.Error):
        return ""


def read_record(files: Files) -> dict[str, Any]:
    try:
        content = json.loads(files.get(RECORD_FILE, ""))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Unreadable(f"{RECORD_FILE} is missing or no record")
    return content


def _times(record: dict[str, Any]) -> tuple[datetime, datetime]:
    start, end = read_time(record, "notBefore"), read_time(record, "notAfter")
    if start >= end:
        raise Unreadable(f"{RECORD_FILE} has an end before the start")
    return start, end


def read_time(record: dict[str, Any], key: str) -> datetime:
    try:
        time = datetime.fromisoformat(record[key])
    except (KeyError, TypeError, ValueError):
        raise Unreadable(f"{RECORD_FILE} has no time {key}") from None
    if time.tzinfo is None or not 1 < time.year < _LAST_YEAR:
        raise Unreadable(f"{RECORD_FILE} has no sensible time {key}")
    return time.astimezone(UTC)


def read_word(record: dict[str, Any], key: str) -> str:
    word = record.get(key)
    if not isinstance(word, str) or not word:
        raise Unreadable(f"{RECORD_FILE} has no {key}")
    return word


def _certificate_record(certificate: Certificate) -> dict[str, Any]:
    return _life(certificate) | {
        "certificate": certificate.identity,
        "authority": certificate.authority,
        "names": list(certificate.names),
    }


def _authority_record(authority: Authority) -> dict[str, Any]:
    record = _life(authority) | {"certificate": authority.identity, "key": authority.key_digest}
    if found := authority.voucher:
        own = {"certificate": found.identity, "authority": found.authority}
        record |= {"voucher": _life(found) | own}
    return record if authority.called else record | {"called": False}


def _life(life: Life) -> dict[str, Any]:
    return {"notBefore": time_text(life.not_before), "notAfter": time_text(life.not_after)}


def time_text(time: datetime) -> str:
    return whole_second(time).isoformat()


def json_text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1) + "\n"
