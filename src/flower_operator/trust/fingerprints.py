"""A SuperNode's public key, in the short form that people compare."""

import base64
import binascii
import hashlib
import re

_BLOCK = re.compile(r"-----BEGIN PUBLIC KEY-----(.*?)-----END PUBLIC KEY-----", re.DOTALL)
# What stands before the point of an uncompressed key; that is the key, in OpenSSH's form too.
_CURVES = {
    "nistp256": bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200"),
    "nistp384": bytes.fromhex("3076301006072a8648ce3d020106052b81040022036200"),
}
_POINT_BYTES = {"nistp256": 65, "nistp384": 97}


def fingerprint(public: str) -> str:
    """As `ssh-keygen -l` prints it, of a public key in PEM; raises ValueError."""
    match = _BLOCK.search(public)
    try:
        key = base64.b64decode("".join(match[1].split()) if match else "", validate=True)
    except binascii.Error:
        key = b""
    for curve, start in _CURVES.items():
        point = key.removeprefix(start)
        if key.startswith(start) and len(point) == _POINT_BYTES[curve] and point[0] == 4:
            parts = (f"ecdsa-sha2-{curve}".encode(), curve.encode(), point)
            blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
            digest = base64.b64encode(hashlib.sha256(blob).digest()).decode()
            return f"SHA256:{digest.rstrip('=')}"
    raise ValueError("this is no public key of the curves P-256 or P-384 in PEM")
