"""A scheduling problem as JSON, so that a developer can reproduce an engine failure.

It has only what the engine reads: names, labels, requests, requirements, rules, prices. The engine never sees
environment variables, commands, annotations or user data, so the JSON cannot contain them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from tenon.kube.requirements import Requirement, Requirements
from tenon.scheduling.model import Problem

ValueT = TypeVar("ValueT")


def encode(value: object) -> bytes:
    """Encode a value that may contain parts of a problem, such as nodes."""
    return msgspec.json.encode(value, enc_hook=_plain)


def decode(text: bytes, kind: type[ValueT]) -> ValueT:
    """Decode what `encode` wrote.

    Raises:
        ValueError: the text is not a value of this kind.
    """
    return msgspec.json.decode(text, type=kind, dec_hook=_read)


def to_json(problem: Problem) -> bytes:
    """Encode the whole problem."""
    return encode(problem)


def from_json(text: bytes) -> Problem:
    """Decode the problem that `to_json` wrote.

    Raises:
        ValueError: the text is not such a problem.
    """
    return decode(text, Problem)


def _plain(value: Any) -> Any:
    if isinstance(value, Requirements):
        return list(value.values())
    if isinstance(value, Requirement):
        return {
            "key": value.key,
            "complement": value.complement,
            "members": list(value.values),
            "gte": value.gte,
            "lte": value.lte,
            "min_values": value.min_values,
            "may_be_absent": value.may_be_absent,
        }
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")


def _read(kind: type, value: Any) -> Any:
    if kind is Requirements:
        return Requirements.of(
            *(Requirement(**{**serialized, "members": frozenset(serialized["members"])}) for serialized in value)
        )
    raise NotImplementedError(f"{kind.__name__} has no form in JSON")
