"""Writes EC2 responses as XML, directly from botocore's service model.

The mock's own serializer looks every member up in several places, which costs milliseconds per instance. This one
iterates over the response's keys and asks the shape only for the name on the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any
from uuid import uuid4
from xml.sax.saxutils import escape

from moto.core.utils import get_service_model

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
Encoder = Callable[[Any], str]


@lru_cache(maxsize=256)  # a listing repeats the same times
def iso(moment: datetime) -> str:
    """A time in EC2's format: UTC, milliseconds, Z."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return aware.strftime("%Y-%m-%dT%H:%M:%S.") + f"{aware.microsecond // 1000:03d}Z"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return iso(value)
    return escape(str(value))


def _encoder(shape: Any, encoders: dict[str, Encoder]) -> Encoder:
    """The encoder for values of ``shape``. ``encoders`` holds the shapes seen so far, for recursive ones."""
    if shape.name in encoders:

        def later(value: Any) -> str:
            """Look up the encoder when it is called, because a recursive shape is not complete yet."""
            return encoders[shape.name](value)

        return later
    encoders[shape.name] = str
    if shape.type_name == "structure":
        members = {
            name: (member.serialization.get("name", name), _encoder(member, encoders))
            for name, member in shape.members.items()
        }

        def structure(value: Mapping[str, Any]) -> str:
            parts = []
            for name, item in value.items():
                if item is not None and name in members:
                    tag, encode = members[name]
                    parts.append(f"<{tag}>{encode(item)}</{tag}>")
            return "".join(parts)

        encoders[shape.name] = structure
    elif shape.type_name == "list":
        tag, encode_item = shape.member.serialization.get("name", "item"), _encoder(shape.member, encoders)
        encoders[shape.name] = lambda value: "".join(f"<{tag}>{encode_item(item)}</{tag}>" for item in value)
    else:
        encoders[shape.name] = _scalar
    return encoders[shape.name]


@cache
def shape_encoder(name: str) -> Encoder:
    """The encoder of a named EC2 shape, such as ``InstanceTypeInfo``."""
    return _encoder(get_service_model("ec2").shape_for(name), {})


@cache
def _output(operation: str) -> Encoder:
    return _encoder(get_service_model("ec2").operation_model(operation).output_shape, {})


def document(operation: str, inner: str) -> str:
    """A complete response around members that are already encoded."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{operation}Response xmlns="{NAMESPACE}">'
        f"<requestId>{uuid4()}</requestId>{inner}</{operation}Response>"
    )


def render(operation: str, result: Mapping[str, Any]) -> str:
    """The response of an EC2 operation. Members that the service model does not define are left out."""
    return document(operation, _output(operation)(result))
