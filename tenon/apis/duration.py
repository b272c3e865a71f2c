"""Durations as users write them in Kubernetes objects: ``720h``, ``1h30m``, ``Never``.

A duration keeps its text, so that an object reads back as it was written. Two durations of the same length are equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

NEVER_TEXT = "Never"
MAX_SECONDS = 2.0**63 / 1e9
"""About 292 years, the maximum in Kubernetes. Longer durations are capped, so that adding them to a time is safe."""

DURATION_OR_NEVER = r"^(([0-9]+(s|m|h))+|Never)$"
DURATION = r"^([0-9]+(s|m|h))+$"
HOURS_AND_MINUTES = r"^(([0-9]+h)?[0-9]+m|[0-9]+h)(0s)?$"

_PART = re.compile(r"([0-9]+)(s|m|h)")
_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_GO_PART = re.compile(r"([0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18})(ns|us|µs|ms|s|m|h)")
_GO_MAX_TEXT = 128


@dataclass(frozen=True, eq=False)
class DurationPattern:
    """Restricts which durations a field accepts. Use it as ``Annotated[Duration, DurationPattern(...)]``."""

    pattern: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Duration) -> Duration:
            if re.match(self.pattern, value.text) is None:
                if value.text == NEVER_TEXT and self.pattern == DURATION:
                    raise ValueError(f"{NEVER_TEXT!r} is not accepted here: leave the field out, which means never")
                raise ValueError(f"{value.text!r} is not accepted here: it must match {self.pattern}")
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "pattern": self.pattern}


class Duration:
    """A length of time, or Never. Immutable."""

    __slots__ = ("seconds", "text")

    text: str
    seconds: float | None
    """Whole seconds as a float; None for Never."""

    def __init__(self, text: str) -> None:
        """Raises ValueError if the text is neither Never nor matches ``([0-9]+[smh])+``."""
        if re.match(DURATION_OR_NEVER, text) is None or text.endswith("\n"):
            raise ValueError(f"{text[:64]!r} is not a duration: write numbers with s, m or h, such as 1h30m, or Never")
        seconds = None
        if text != NEVER_TEXT:
            total = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(text))
            seconds = min(total, MAX_SECONDS)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "seconds", seconds)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Duration cannot be changed")

    @property
    def never(self) -> bool:
        """Whether the duration is Never."""
        return self.seconds is None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Duration({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.seconds == other.seconds

    def __hash__(self) -> int:
        return hash(self.seconds)

    def __reduce__(self) -> tuple[type[Duration], tuple[str]]:
        return Duration, (self.text,)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls._read, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def _read(cls, value: Any) -> Duration:
        if isinstance(value, Duration):
            return value
        if not isinstance(value, str):
            raise ValueError("is not a string: write a duration such as 30s or 1h30m, or Never")
        return cls(value)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": DURATION_OR_NEVER}


PlainDuration = Annotated[Duration, DurationPattern(DURATION)]
"""A Duration that cannot be Never."""
GO_DURATION = r"^\+?(([0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18})(ns|us|µs|ms|s|m|h))+$"


def _go_text(text: str) -> str:
    if re.fullmatch(GO_DURATION, text) is None or go_seconds(text) is None:
        raise ValueError(f"{text[:64]!r} is not a duration: write numbers with ms, s, m or h, such as 1m30.5s")
    return text


GoDuration = Annotated[
    str, AfterValidator(_go_text), WithJsonSchema({"type": "string", "maxLength": 128, "pattern": GO_DURATION})
]
"""A duration in Go's format, including fractions and small units. It stays text and is passed on unchanged."""
BudgetDuration = Annotated[Duration, DurationPattern(HOURS_AND_MINUTES)]
"""A Duration in hours and minutes, as a disruption budget accepts it."""


def go_seconds(text: str) -> float | None:
    """Return the seconds of a Go duration such as ``1.5h`` or ``250ms``; None if the text is not a Go duration."""
    sign, body = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if body == "0":
        return 0.0
    if not body or len(body) > _GO_MAX_TEXT or _GO_PART.sub("", body):
        return None
    return sign * min(sum(float(n) * _UNIT_SECONDS[unit] for n, unit in _GO_PART.findall(body)), MAX_SECONDS)
