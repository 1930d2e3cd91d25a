"""Certificates for servers and clients of the tests."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from flower_operator.trust.decisions import RolledOut, Wanted
from flower_operator.trust.layout import SERVER_FILES, Stored
from flower_operator.trust.steps import settle

from .https_client import LOOPBACK


def self_signed_certificate(common_name: str) -> tuple[bytes, bytes]:
    """Return a new private key, and a certificate for the loopback address that is its own CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    now = datetime.datetime.now(datetime.UTC)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    address = x509.IPAddress(ipaddress.ip_address(LOOPBACK))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(pem)


def issued_certificate(*names: str, now: datetime.datetime | None = None) -> dict[str, str]:
    """tls.crt, tls.key and ca.crt as another issuer may make them, by a CA of its own."""
    now = now or datetime.datetime.now(datetime.UTC)
    stored, _, _ = settle(Stored(), Wanted(names), "other", "other", now, RolledOut())
    return {name: stored.server[name] for name in SERVER_FILES}


def huge_key() -> str:
    """An RSA key of 14,112 bits, in no time: of two primes that are known since long."""
    p, q, exponent = 2**9689 - 1, 2**4423 - 1, 65537
    secret = pow(exponent, -1, (p - 1) * (q - 1))
    numbers = rsa.RSAPrivateNumbers(
        p,
        q,
        secret,
        secret % (p - 1),
        secret % (q - 1),
        pow(q, -1, p),
        rsa.RSAPublicNumbers(exponent, p * q),
    )
    key = numbers.private_key(unsafe_skip_rsa_key_validation=True)
    pem = serialization.Encoding.PEM
    private = serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, private, serialization.NoEncryption()).decode()
