"""Run inside a flwr environment, which has `cryptography`: a CA and a server's certificate.

python make_certificates.py FOLDER
"""

import datetime
import ipaddress
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

folder = Path(sys.argv[1])
now = datetime.datetime.now(datetime.UTC)


def builder(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test CA")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


authority_key, key = (
    ec.generate_private_key(ec.SECP256R1()),
    ec.generate_private_key(ec.SECP256R1()),
)
authority = (
    builder("test CA", authority_key)
    .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    .sign(authority_key, hashes.SHA256())
)
names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
usage = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH])
certificate = (
    builder("superlink", key)
    .add_extension(names, critical=False)
    .add_extension(usage, critical=False)
    .sign(authority_key, hashes.SHA256())
)
pem = serialization.Encoding.PEM
(folder / "ca.crt").write_bytes(authority.public_bytes(pem))
(folder / "tls.crt").write_bytes(certificate.public_bytes(pem))
(folder / "tls.key").write_bytes(
    key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
)
