"""A certificate for the metrics endpoint: encryption, where nobody was asked for more."""

import asyncio
import ssl
import sys
import tempfile
from datetime import UTC, datetime, timedelta

NAME = "flower-operator"
LIFE = timedelta(days=3650)


async def load_new_certificate(tls: ssl.SSLContext) -> None:
    """Give a server's context a key of its own.

    It is made in a process of its own: the library for it would stay in this one's memory for
    good, a tenth of all of it.
    """
    command = (sys.executable, "-m", __name__)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    made, _ = await process.communicate()
    if process.returncode:
        raise OSError(f"no certificate could be made: {' '.join(command)} failed")
    with tempfile.NamedTemporaryFile() as file:
        file.write(made)
        file.flush()
        tls.load_cert_chain(file.name)


def self_signed() -> bytes:
    """A new key and its certificate, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM) + private


if __name__ == "__main__":
    sys.stdout.buffer.write(self_signed())
