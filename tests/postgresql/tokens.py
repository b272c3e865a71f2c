"""Tokens for Temporal's default authorizer: JSON Web Tokens, and the file with the key that checks them."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KEY_ID = "tests"
LIFETIME = 3600


class Issuer:
    """Signs tokens with a key of its own."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def write_keys(self, path: Path) -> Path:
        """Write the JSON Web Key Set that a server needs."""
        numbers = self._key.public_key().public_numbers()
        modulus, exponent = (number.to_bytes((number.bit_length() + 7) // 8) for number in (numbers.n, numbers.e))
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "n": _text(modulus), "e": _text(exponent)}
        path.write_text(json.dumps({"keys": [key]}))
        return path

    def token(self, *permissions: str) -> str:
        """A token of somebody with these permissions, such as ``default:write``."""
        header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        claims = {"sub": "worker", "exp": int(time.time()) + LIFETIME, "permissions": permissions}
        signed = ".".join(_text(json.dumps(part).encode()) for part in (header, claims))
        return f"{signed}.{_text(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
