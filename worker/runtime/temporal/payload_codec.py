"""Encrypts what workflows and activities send through Temporal, so that only who has the keys can read it.

The file of the keys has the form of the API server's EncryptionConfiguration for `aesgcm`: a list in which the first
key encrypts and every key decrypts. So a rotation adds the new key second, and moves it to the front once every worker
has it. The file is read again when it changes, as when the kubelet updates a Secret.
"""

from __future__ import annotations

import functools
import os
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import yaml
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from activities import loggers
from activities.metrics import PAYLOADS_UNREADABLE
from worker.log_rate_limit import LogRateLimiter
from worker.runtime.temporal.encrypted_payloads import ENCODING, KEY_ID, PayloadCodecError

log = loggers.TEMPORAL

NONCE_BYTES = 12
KEY_BYTES = (16, 24, 32)


def _secret(text: object) -> bytes:
    try:
        secret = b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        secret = b""
    if len(secret) not in KEY_BYTES:
        raise ValueError("the secret is not base64 of 16, 24 or 32 bytes")
    return secret


def _name(text: object) -> str:
    if not isinstance(text, str) or not text:
        raise ValueError("the name is not text: put it in quotes")
    return text


class Key(BaseModel):
    """One key."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, BeforeValidator(_name)]
    secret: Annotated[bytes, BeforeValidator(_secret)] = Field(repr=False)


class Keys(BaseModel):
    """All keys of a file."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    keys: list[Key]
    encrypt: bool = True
    """Whether new payloads are encrypted. Without it, the keys only decrypt."""

    @model_validator(mode="after")
    def _is_usable(self) -> Keys:
        if not self.keys:
            raise ValueError("there is no key")
        if len({key.name for key in self.keys}) < len(self.keys):
            raise ValueError("two keys have the same name")
        return self


def read(path: Path) -> Keys:
    """Read a file of keys. No message contains any part of a key.

    Raises:
        PayloadCodecError: the file cannot be used.
    """
    try:
        return Keys.model_validate(yaml.safe_load(path.read_text()))
    except OSError as error:
        why = error.strerror or type(error).__name__
    except (yaml.YAMLError, UnicodeDecodeError):
        why = "it is not YAML"
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        why = f"{where}: {message}" if where else message
    raise PayloadCodecError(
        f"The encryption keys in {path} cannot be used ({why}): write `keys`, a list of `name` and `secret`."
    )


class EncryptionCodec(PayloadCodec):
    """Encrypts each payload with AES-GCM. What is not encrypted passes as it is, because open workflows hold some."""

    def __init__(self, path: Path) -> None:
        """Read the keys.

        Raises:
            PayloadCodecError: the file cannot be used.
        """
        self._path = path
        self._log_limiter = LogRateLimiter()
        self._stamp = _stamp(path)
        self._use(read(path))

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt with the first key."""
        self._refresh()
        return [self._encrypt(payload) for payload in payloads] if self._encrypts else list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt with the key that a payload names.

        Raises:
            PayloadCodecError: the key is not in the file, or the payload was changed.
        """
        self._refresh()
        return [
            self._decrypt(payload) if payload.metadata.get("encoding") == ENCODING else payload for payload in payloads
        ]

    def _encrypt(self, payload: Payload) -> Payload:
        nonce = os.urandom(NONCE_BYTES)
        name = self._first
        data = nonce + self._ciphers[name].encrypt(nonce, payload.SerializeToString(), name)
        return Payload(metadata={"encoding": ENCODING, KEY_ID: name}, data=data)

    def _decrypt(self, payload: Payload) -> Payload:
        name = payload.metadata.get(KEY_ID, b"")
        cipher = self._ciphers.get(name)
        if cipher is None:
            PAYLOADS_UNREADABLE.inc()
            raise PayloadCodecError(
                f"A payload is encrypted with the key {_shown(name)}, which {self._path} lacks: add it."
            )
        try:
            plain = cipher.decrypt(payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:], name)
        except (InvalidTag, ValueError):
            PAYLOADS_UNREADABLE.inc()
            raise PayloadCodecError(
                f"A payload cannot be decrypted with the key {_shown(name)}: it was changed, or the key was."
            ) from None
        return Payload.FromString(plain)

    def _refresh(self) -> None:
        """Read the file again if it changed. Keeps the keys while it cannot be used."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._use(read(self._path))
        except PayloadCodecError as error:
            if self._log_limiter.count(str(error)) is not None:
                log.warning(
                    "The new encryption keys cannot be used, and the worker keeps the old ones",
                    extra={"error": str(error)},
                )
            return
        log.info("The encryption keys changed, and the worker uses the new ones", extra={"key": self._first.decode()})

    def _use(self, keys: Keys) -> None:
        self._encrypts = keys.encrypt
        self._first = keys.keys[0].name.encode()
        self._ciphers = {key.name.encode(): AESGCM(key.secret) for key in keys.keys}


def _shown(name: bytes) -> str:
    return name.decode(errors="replace")


def _stamp(path: Path) -> tuple[int, ...]:
    """Changes with the file, and with the link through which the kubelet replaces it."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size


@functools.cache
def codec_of(path: Path) -> EncryptionCodec:
    """The codec of a file. A process has one, so that each change is logged once.

    Raises:
        PayloadCodecError: the file cannot be used.
    """
    return EncryptionCodec(path)
