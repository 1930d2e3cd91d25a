"""Looks into certificates that were made elsewhere: what needs a library for them."""

import ipaddress

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from .given import Inspected, Unfit
from .layout import BUNDLE_FILE, CERTIFICATE_FILE, KEY_FILE, Files
from .records import Authority, Certificate

LONGEST_CHAIN = 8


def inspect(files: Files) -> Inspected:
    """What is in a Secret with all three files. Raises Unfit if they do not go together."""
    own, *others = _certificates(files, CERTIFICATE_FILE)
    authorities = _certificates(files, BUNDLE_FILE)
    try:
        public_key = own.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Unfit(f"the key of {CERTIFICATE_FILE} cannot be read: {error}") from None
    if _public_key(files) != public_key:
        raise Unfit(f"{KEY_FILE} is not the key of {CERTIFICATE_FILE}")
    chain = _chain(own, others, authorities)
    return Inspected(
        Certificate(
            max(each.not_valid_before_utc for each in chain),
            min(each.not_valid_after_utc for each in chain),
            _identity(own),
            _identity(chain[-1]),
            _names(own),
        ),
        tuple(
            Authority(each.not_valid_before_utc, each.not_valid_after_utc, _identity(each))
            for each in authorities
        ),
    )


def _certificates(files: Files, file: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(files[file].encode())
    except ValueError:
        raise Unfit(f"{file} holds no certificates in PEM") from None


def _public_key(files: Files) -> object:
    try:
        return load_pem_private_key(files[KEY_FILE].encode(), None).public_key()
    except TypeError:
        raise Unfit(f"{KEY_FILE} is encrypted, and Flower has no password for it") from None
    except (ValueError, UnsupportedAlgorithm):
        raise Unfit(f"{KEY_FILE} is no private key in PEM") from None


def _chain(
    own: x509.Certificate, others: list[x509.Certificate], authorities: list[x509.Certificate]
) -> list[x509.Certificate]:
    """From the certificate to one that clients trust."""
    chain = [own]
    while chain[-1] not in authorities:
        issuer = next((each for each in (*authorities, *others) if _signed(each, chain[-1])), None)
        if issuer is None or len(chain) == LONGEST_CHAIN:
            raise Unfit(f"{CERTIFICATE_FILE} is not signed by a CA of {BUNDLE_FILE}")
        chain.append(issuer)
    return chain


def _signed(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints)
        certificate.verify_directly_issued_by(issuer)
    except (x509.ExtensionNotFound, ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return constraints.value.ca


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return ()
    names = [name.lower() for name in extension.value.get_values_for_type(x509.DNSName)]
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    plain = (ipaddress.IPv4Address, ipaddress.IPv6Address)
    return (*names, *(each.compressed for each in addresses if isinstance(each, plain)))


def _identity(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()
