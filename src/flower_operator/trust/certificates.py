"""Makes CAs, server certificates and SuperNode keys: what needs a library for them."""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .keys import KeyPair
from .layout import (
    BUNDLE_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    Files,
    Part,
    Stored,
    authority_key_file,
    voucher_file,
)
from .names import address_of
from .records import (
    BACKDATED,
    Authority,
    Certificate,
    State,
    Voucher,
    authorities_files,
    digest,
    read_state,
    server_files,
    split_bundle,
    whole_second,
)

AUTHORITY_LIFE = timedelta(days=5 * 365)
CERTIFICATE_LIFE = timedelta(days=90)
SUPERNODE_LIFE = timedelta(days=365)
"""Longer, since a new one restarts every SuperNode, and it is for loopback alone."""
MOST_AUTHORITIES = 4
"""Kept beside a new one, whatever clocks and people do."""


def with_new_authority(stored: Stored, federation: str, namespace: str, now: datetime) -> Files:
    """The object of the CAs with one more, which is then the newest. The one that is served from
    vouches for it, if it can; then there is time until clients are started with it."""
    state = read_state(stored)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _authority_certificate(key, federation, namespace, now)
    text, key_text = _pem(certificate), _key_pem(key)
    served = state.authority(state.certificate.authority) if state.certificate else None
    voucher, vouching = None, None
    if served and served.key_digest and served.valid_at(now):
        vouching = _vouching(certificate, *_signer(stored, served.identity), now)
        voucher = Voucher(*_life(vouching), _identity(vouching), served.identity)
    record = Authority(
        *_life(certificate), _identity(certificate), digest(key_text), voucher, called=not voucher
    )
    kept = _kept(state)
    known = split_bundle(stored.bundle.get(BUNDLE_FILE, "")) | split_bundle(
        stored.authorities.get(BUNDLE_FILE, "")
    )
    keys = {
        each.identity: stored.authorities[authority_key_file(each.identity)]
        for each in kept
        if each.key_digest
    }
    vouchers = {
        each.identity: stored.authorities[voucher_file(each.identity)]
        for each in kept
        if each.voucher
    }
    return authorities_files(
        [*(known[each.identity] for each in kept), text],
        [*kept, record],
        keys | {record.identity: key_text},
        vouchers | ({record.identity: _pem(vouching)} if vouching else {}),
    )


def new_certificate(
    stored: Stored, part: Part, signer: str, federation: str, names: Sequence[str], now: datetime
) -> Files:
    """The object of a server's certificate, with a new one by the CA of that identity."""
    authority, authority_key = _signer(stored, signer)
    known = read_state(stored).authority(signer)
    voucher = known.voucher if known and known.voucher and known.voucher.valid_at(now) else None
    key = ec.generate_private_key(ec.SECP256R1())
    life = SUPERNODE_LIFE if part is Part.SUPERNODE else CERTIFICATE_LIFE
    server = f"{federation}-{part.removesuffix('-tls')}"
    certificate = _server_certificate(key, authority, authority_key, server, names, now, now + life)
    record = Certificate(
        *_life(certificate),
        _identity(certificate),
        signer,
        tuple(names),
        voucher=voucher.identity if voucher else None,
    )
    vouching = stored.authorities[voucher_file(signer)] if voucher else ""
    return server_files(_pem(certificate), vouching, _key_pem(key), _pem(authority), record)


def lone_certificate(
    server: str, federation: str, namespace: str, names: Sequence[str], now: datetime
) -> Files:
    """A server's certificate by a CA that signs no other: its key is kept nowhere."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _authority_certificate(authority_key, federation, namespace, now)
    end = authority.not_valid_after_utc
    certificate = _server_certificate(key, authority, authority_key, server, names, now, end)
    return {
        BUNDLE_FILE: _pem(authority),
        CERTIFICATE_FILE: _pem(certificate),
        KEY_FILE: _key_pem(key),
    }


def make_key_pair() -> KeyPair:
    """A SuperNode's identity."""
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(private.decode(), public.decode())


def _kept(state: State) -> list[Authority]:
    """The CA in use, and the latest others."""
    serving = state.certificate.authority if state.certificate else ""
    others = [each for each in state.authorities if each.identity != serving]
    chosen = {serving, *(each.identity for each in others[-(MOST_AUTHORITIES - 1) :])}
    return [each for each in state.authorities if each.identity in chosen]


def _signer(stored: Stored, identity: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A CA's certificate and its key."""
    text = split_bundle(stored.authorities[BUNDLE_FILE])[identity]
    key = load_pem_private_key(stored.authorities[authority_key_file(identity)].encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return x509.load_pem_x509_certificate(text.encode()), key


def _authority_certificate(
    key: ec.EllipticCurvePrivateKey, federation: str, namespace: str, now: datetime
) -> x509.Certificate:
    serial = x509.random_serial_number()
    # Two CAs of a Federation have different subjects, so that no library mixes them up.
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, namespace),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, federation),
            x509.NameAttribute(NameOID.COMMON_NAME, f"Flower CA {serial:040x}"[:26]),
        ]
    )
    public = key.public_key()
    return (
        _builder(subject, subject, public, serial, now, whole_second(now) + AUTHORITY_LIFE)
        # One below it, which is for the CA that follows.
        .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _vouching(
    new: x509.Certificate,
    old: x509.Certificate,
    old_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    """The new CA, of the same name and key, signed by the old one."""
    public = new.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(old_key.public_key())
    end = min(old.not_valid_after_utc, new.not_valid_after_utc)
    serial = x509.random_serial_number()
    return (
        _builder(new.subject, old.subject, public, serial, now, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(issuer_key, critical=False)
        .sign(old_key, hashes.SHA256())
    )


def _server_certificate(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    server: str,
    names: Sequence[str],
    now: datetime,
    end: datetime,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, server)])
    end = min(whole_second(end), authority.not_valid_after_utc)
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    serial = x509.random_serial_number()
    return (
        _builder(subject, authority.subject, key.public_key(), serial, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer_key, critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    serial: int,
    now: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(whole_second(now) - BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None = address_of(name)
    return x509.IPAddress(address) if address else x509.DNSName(name)


def _life(certificate: x509.Certificate) -> tuple[datetime, datetime]:
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def _identity(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
