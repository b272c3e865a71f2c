"""What an encrypted payload looks like, for processes with keys and without.

Loading cryptography takes 12 MiB, so this module does without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from tenon.errors import TenonError

ENCRYPTION_CONFIG = "PAYLOAD_ENCRYPTION_CONFIG"
"""The setting that names the file of the keys."""
ENCODING = b"binary/encrypted"
KEY_ID = "encryption-key-id"
"""The names that Temporal's own samples give these, which other codec servers know."""


class PayloadCodecError(TenonError):
    """Payloads cannot be encrypted or decrypted. The message is one sentence."""


class WithoutKeys(PayloadCodec):
    """Passes what is not encrypted, and says what is missing for the rest."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt nothing."""
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Pass payloads on.

        Raises:
            PayloadCodecError: one is encrypted.
        """
        for payload in payloads:
            if payload.metadata.get("encoding") == ENCODING:
                key = payload.metadata.get(KEY_ID, b"").decode(errors="replace")
                raise PayloadCodecError(
                    f"This payload in Temporal is encrypted with the key {key}: "
                    f"set {ENCRYPTION_CONFIG} to the file of the keys."
                )
        return list(payloads)
