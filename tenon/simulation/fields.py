"""Fields that all kinds of manifests share, and their faults as sentences with field paths."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from tenon.apis.base import ApiModel, Instant
from tenon.apis.parse_errors import kind_of, sentence_of
from tenon.apis.validation import FieldError
from tenon.manifests.paths import text_of
from tenon.resources import parse_quantity

MAX_AMOUNT = 2**63 - 1
"""The largest quantity that Kubernetes accepts."""


def _amount(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("is not a quantity: write a number with an optional suffix, such as 250m or 1Gi")
    text = str(value)
    if len(text) > 100:
        raise ValueError("is longer than any quantity")
    number = parse_quantity(text)
    if number < 0:
        raise ValueError(f"{text} is below zero: a quantity must not be negative")
    if number > MAX_AMOUNT:
        raise ValueError(f"{text} is larger than any quantity that Kubernetes keeps ({MAX_AMOUNT})")
    return text


Amount = Annotated[str, BeforeValidator(_amount)]
Amounts = dict[str, Amount]
Text = Annotated[str, Field(min_length=1)]


class Owner(ApiModel):
    kind: str = ""
    name: str = ""
    uid: str = ""


class Metadata(ApiModel):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    uid: str = ""
    creation_timestamp: Instant | None = None
    deletion_timestamp: Instant | None = None
    owner_references: list[Owner] = []


class Condition(ApiModel):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: Instant | None = None


def located(error: ValidationError) -> list[FieldError]:
    """Convert a model's validation errors to problems with field paths."""
    return [FieldError(text_of(fault["loc"]), sentence_of(fault), kind_of(fault)) for fault in error.errors()]
