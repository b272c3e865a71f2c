"""The base class of all API models, and the validation rules that the API server and Tenon both enforce.

A rule is CEL. The API server evaluates it from the CRD, and `tenon.apis.cel_rules` for manifests that no API server has
validated, such as files given to the command line or objects stored before the rule existed.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tenon import resources
from tenon.apis.field_descriptions import field_descriptions

RULES_KEY = "x-kubernetes-validations"
SERVER: Final = "server"
OPEN_KEY = "x-tenon-open"
"""Marks an object of a schema whose fields the API server stores unchecked. Tenon checks them."""
QUANTITY_PATTERN = r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$"


_CAPITALS = {"id": "ID", "ip": "IP", "ipv6": "IPv6", "dns": "DNS", "cfs": "CFS", "gc": "GC"}


@cache
def kubernetes_name(field: str) -> str:
    """Return a field's name in a manifest: ``image_gc_high_threshold_percent`` is ``imageGCHighThresholdPercent``."""
    first, *rest = field.split("_")
    return first + "".join(_CAPITALS.get(word, word.capitalize()) for word in rest)


class FaultKind(StrEnum):
    """What is wrong with a field, for code that does more about it than say so."""

    OTHER = ""
    MISSING = "missing"
    """The field is required."""
    UNKNOWN = "unknown"
    """The model has no such field."""
    UNKNOWN_SETTING = "unknown-setting"
    """The kubelet has no such setting."""
    NO_LIST = "no-list"
    """The field must hold a list."""
    VALUE = "value"
    """The value itself is refused, whatever other fields have."""
    TAGS = "tags"
    """The tags of an EC2NodeClass, or of one of its terms, break a rule."""
    RESERVED_LABELS = "labels"
    """Some of the labels are reserved. The value is the name of the field in the object at the path."""
    RESERVED_REQUIREMENTS = "requirements"
    """Some of the requirements are about reserved labels. The value is the name of their field, as above."""


@dataclass(frozen=True)
class Rule:
    """A cross-field rule of one model.

    `enforced_by` is `SERVER` for a transition rule, which compares with the stored object that only the API server has,
    and for a rule that `tenon.apis.validation` checks with a more precise message. `kind` is that of an object that
    breaks it.
    """

    cel: str
    sentence: str
    enforced_by: Literal["server", "both"] = "both"
    kind: FaultKind = FaultKind.OTHER


def exactly_one(first: str, other: str, sentence: str) -> Rule:
    """Return the rule that exactly one of two fields is given."""
    return Rule(
        f"has(self.{kubernetes_name(first)}) != has(self.{kubernetes_name(other)})",
        sentence,
    )


def not_both(first: str, other: str, sentence: str) -> Rule:
    """Return the rule that at most one of two fields is given."""
    return Rule(
        f"!has(self.{kubernetes_name(first)}) || !has(self.{kubernetes_name(other)})",
        sentence,
    )


def as_stored(fields: dict[Any, Any], *, maps: bool = True) -> dict[Any, Any]:
    """Normalize the fields of an object, and by default the entries of its maps, as the API server reads them.

    Nulls are dropped and 5.0 becomes the integer 5. An integer that does not fit into 64 bits becomes infinity, so that
    validation rejects it.
    """
    changed = {}
    for name, value in fields.items():
        stored_value: Any = value
        if type(value) is dict:
            stored_value = as_stored(value, maps=False) if maps else value
        elif type(value) is float and value.is_integer() and abs(value) < 2**63:
            stored_value = int(value)
        elif type(value) is int and not -(2**63) <= value < 2**63:
            stored_value = math.inf
        if value is None or stored_value is not value:
            changed[name] = stored_value
    if not changed:
        return fields
    return {
        name: stored_value for name, value in fields.items() if (stored_value := changed.get(name, value)) is not None
    }


class ApiModel(BaseModel):
    """Reads what the API server would store: unknown fields are dropped, nulls are as good as absent."""

    model_config = ConfigDict(
        defer_build=True,  # a process needs few of the models
        alias_generator=kubernetes_name,
        populate_by_name=True,
        extra="ignore",
        strict=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    def problems(self) -> Iterable[tuple[str, str]]:
        """Yield the path and the sentence of each problem that neither a field nor a rule shows."""
        return ()

    @model_validator(mode="before")
    @classmethod
    def _as_stored(cls, data: Any) -> Any:
        return as_stored(data) if isinstance(data, dict) else data

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        for model in reversed(cls.__mro__):
            if issubclass(model, ApiModel):
                for name, description in field_descriptions(model).items():
                    schema["properties"][kubernetes_name(name)]["description"] = description
        if cls.rules:
            schema[RULES_KEY] = [{"rule": rule.cel, "message": rule.sentence} for rule in cls.rules]
        return schema

    def to_dict(self) -> dict[str, Any]:
        """Return the object as JSON types under its Kubernetes names, without absent fields."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")


def is_open(kind: object) -> bool:
    """Whether this is a model whose fields the API server stores unchecked."""
    if not (isinstance(kind, type) and issubclass(kind, ApiModel)):
        return False
    extra = kind.model_config.get("json_schema_extra")
    return isinstance(extra, dict) and OPEN_KEY in extra


def quantity_text(value: Any) -> Any:
    """Convert an integer to text, and return any other value unchanged."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _known_quantity(text: str) -> str:
    if text != text.strip():
        raise ValueError(f"{text[:64]!r} is not a quantity: it begins or ends with a blank")
    resources.parse_quantity(text)
    return text


QUANTITY_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": QUANTITY_PATTERN,
    "x-kubernetes-int-or-string": True,
}
Quantity = Annotated[
    str, BeforeValidator(quantity_text), AfterValidator(_known_quantity), WithJsonSchema(QUANTITY_SCHEMA)
]
"""A Kubernetes quantity as text. An integer is accepted and converted to text."""


def _not_negative(text: str) -> str:
    if text.startswith("-"):
        raise ValueError(f"{text[:64]} is below zero: it must not be negative")
    return text


def known_amount(text: str) -> str:
    """Return the text if it is a quantity that is not negative.

    Raises:
        ValueError: the text is not a quantity, or it is negative.
    """
    return _not_negative(_known_quantity(text))


AMOUNT_SCHEMA = {**QUANTITY_SCHEMA, "pattern": QUANTITY_PATTERN.replace("[+-]?", "[+]?", 1), "minimum": 0}
Amount = Annotated[Quantity, AfterValidator(_not_negative), WithJsonSchema(AMOUNT_SCHEMA)]
"""A Kubernetes quantity that is not negative."""

ResourceList = dict[str, Quantity]
Amounts = dict[str, Amount]

Timestamp = Annotated[datetime, Field(strict=False)]
"""An RFC 3339 timestamp."""
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def rfc3339(value: Any) -> datetime:
    """Read a time that a user writes, as strictly as the API server does.

    Raises:
        ValueError: it is a number, a date without a time, a time without a zone, or not in the years 1 to 9999 in UTC.
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    try:
        if isinstance(value, str) and _RFC_3339.fullmatch(value) is not None:
            instant = datetime.fromisoformat(value.upper())
            instant.astimezone(UTC)
            return instant
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{str(value)[:64]!r} is not a time such as 2026-01-31T12:00:00Z")


def _stays_text(text: str) -> str:
    rfc3339(text)
    return text


def _comparable(value: Any) -> datetime:
    if isinstance(value, str) and not value.isupper():
        raise ValueError(f"{value[:64]!r} is not a time such as 2026-01-31T12:00:00Z")
    return rfc3339(value)


Instant = Annotated[str, AfterValidator(_stays_text), WithJsonSchema({"type": "string", "format": "date-time"})]
"""An RFC 3339 timestamp that a user writes, as the text that it is."""
ComparedTimestamp = Annotated[datetime, Field(strict=False), BeforeValidator(_comparable)]
"""The same for rules in CEL, which compare times only if their T and Z are capitals."""
