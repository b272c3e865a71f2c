"""The form of documents that are kept for months: compressed JSON with a version, named by the digest of the JSON.

Requirements are short in it, because a list of instance types has tens of thousands: what a label may be is a list of
its values, unless the requirement is unusual.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel

from tenon.errors import TenonError
from tenon.kube.requirements import Requirement, Requirements

VERSION = 1
MAX_TEXT = 64_000_000
"""Bytes of a document that is not compressed, so that a forged one does not fill the memory."""
_Document = TypeVar("_Document")


class UnreadableInputsError(TenonError):
    """The inputs of a decision cannot be read. The message says why, without a period."""


class _Versioned(msgspec.Struct, frozen=True):
    version: int


def encode(document: Any) -> bytes:
    """Return the JSON of a document or a part of it. Equal ones have equal bytes."""
    return _JSON.encode(document)


def digest_of(text: bytes) -> str:
    """Return the digest that names a document."""
    return hashlib.sha256(text).hexdigest()


def read(digest: str, packed: bytes, kind: type[_Document]) -> _Document:
    """Return a document.

    Raises:
        UnreadableInputsError: it is damaged, or of a version that this one does not know.
    """
    try:
        decompressor = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        text = decompressor.decompress(packed, MAX_TEXT)
        if not decompressor.eof or digest_of(text) != digest:
            raise UnreadableInputsError(f"the document {digest} is damaged")
        version = msgspec.json.decode(text, type=_Versioned).version
        if version > VERSION:
            raise UnreadableInputsError(
                f"the document {digest} has version {version}, and this tenon reads up to {VERSION}: use a newer one"
            )
        return msgspec.json.decode(text, type=kind, dec_hook=_read_plain)
    except (zlib.error, msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
        raise UnreadableInputsError(f"the document {digest} cannot be read: {error}") from None


def _plain(value: Any) -> Any:
    """Models as their JSON. Requirements by label: the values that the label may have, or whatever else they say."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if not isinstance(value, Requirements):
        raise NotImplementedError(f"{type(value).__name__} has no form in JSON")
    return {key: _plain_requirement(requirement) for key, requirement in value.items()}


def _plain_requirement(requirement: Requirement) -> Any:
    values = list(requirement.values)
    parts = {
        "complement": requirement.complement,
        "gte": requirement.gte,
        "lte": requirement.lte,
        "min_values": requirement.min_values,
        "may_be_absent": requirement.may_be_absent,
    }
    unusual = {name: part for name, part in parts.items() if part is not None and part is not False}
    return {"members": values, **unusual} if unusual else values


def _read_plain(kind: type, value: Any) -> Any:
    if issubclass(kind, BaseModel):
        return kind.model_validate(value)
    if kind is not Requirements:
        raise NotImplementedError(f"{kind.__name__} has no form in JSON")
    return Requirements({key: _requirement(key, plain) for key, plain in value.items()})


def _requirement(key: str, plain: Any) -> Requirement:
    if isinstance(plain, list):
        return Requirement(key, False, frozenset(plain))
    return Requirement(
        key,
        plain.get("complement", False),
        frozenset(plain["members"]),
        gte=plain.get("gte"),
        lte=plain.get("lte"),
        min_values=plain.get("min_values"),
        may_be_absent=plain.get("may_be_absent", False),
    )


_JSON = msgspec.json.Encoder(enc_hook=_plain, order="deterministic")
