"""Evaluates identity-based IAM policies: actions, resources, and conditions. An explicit Deny wins over every Allow.

It knows the elements that controllers' policies use and refuses a policy with any other, because a condition that is
ignored would make the sandbox more generous than AWS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from tenon.errors import TenonError

Context = Mapping[str, tuple[str, ...]]
"""The condition keys of a request, in lower case, with their values. A key without values is absent."""
ELEMENTS = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"}
ARN_FIELDS = 6


class PolicyError(TenonError):
    """The policy is malformed, or has an element that this evaluator does not know."""


class Decision(Enum):
    """The outcome for one request."""

    ALLOWED = "allowed"
    IMPLICITLY_DENIED = "implicitly denied"
    EXPLICITLY_DENIED = "explicitly denied"


@dataclass(frozen=True)
class Request:
    """One action on one resource."""

    action: str
    resource: str
    context: Context
    exists: bool = True
    """Whether the resource exists, or is about to be created."""


@dataclass(frozen=True)
class Condition:
    """One operator on one key. It holds if any of its values matches."""

    operator: str
    key: str
    values: tuple[str, ...]

    def holds(self, context: Context) -> bool:
        """Whether the request meets the condition."""
        quantifier, _, name = self.operator.rpartition(":")
        optional = name.endswith("IfExists")
        matches, negated = OPERATORS[name.removesuffix("IfExists")]
        actual = context.get(self.key, ())
        if name == "Null":
            return any((not actual) == (value.lower() == "true") for value in self.values)
        if quantifier == "ForAnyValue":
            return any(self._passes(item, matches, negated) for item in actual)
        if quantifier == "ForAllValues":
            return all(self._passes(item, matches, negated) for item in actual)
        if not actual:
            return negated or optional
        result = any(matches(item, value) for item in actual for value in self.values)
        return result != negated

    def _passes(self, item: str, matches: Callable[[str, str], bool], negated: bool) -> bool:
        return any(matches(item, value) for value in self.values) != negated


@dataclass(frozen=True)
class Statement:
    """One statement of a policy."""

    allows: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: tuple[Condition, ...]
    other_actions: bool = False
    """The actions are those of NotAction."""
    other_resources: bool = False
    """The resources are those of NotResource."""

    def applies(self, request: Request) -> bool:
        """Whether the statement is about the request."""
        return (
            any(_like(request.action.lower(), action.lower()) for action in self.actions) != self.other_actions
            and any(arn_like(request.resource, resource) for resource in self.resources) != self.other_resources
            and all(condition.holds(request.context) for condition in self.conditions)
        )


@dataclass(frozen=True)
class Policy:
    """The statements of all policies of one role."""

    statements: tuple[Statement, ...]

    @classmethod
    def parse(cls, text: str, variables: Mapping[str, str] | None = None) -> Policy:
        """Read a policy document. ``variables`` replace placeholders such as ``${CLUSTER_NAME}``.

        Raises:
            PolicyError: the document is malformed, or this evaluator does not know all of it.
        """
        for name, value in (variables or {}).items():
            text = text.replace(f"${{{name}}}", value)
        if search := re.search(r"\$\{[^}]*\}", text):
            raise PolicyError(f"the policy has the variable {search[0]}, which has no value")
        try:
            document = json.loads(text)
            statements = document["Statement"]
        except (ValueError, KeyError, TypeError) as error:
            raise PolicyError(f"the text is not a policy document: {error}") from error
        return cls(
            tuple(_statement(statement) for statement in ([statements] if isinstance(statements, dict) else statements))
        )

    @property
    def granted(self) -> frozenset[str]:
        """The actions that Allow statements name, as they are spelled there."""
        return frozenset(action for statement in self.statements if statement.allows for action in statement.actions)

    def decide(self, request: Request) -> Decision:
        """The decision for a request."""
        applying = [statement for statement in self.statements if statement.applies(request)]
        if any(not item.allows for item in applying):
            return Decision.EXPLICITLY_DENIED
        return Decision.ALLOWED if applying else Decision.IMPLICITLY_DENIED


def _statement(value: Mapping[str, Any]) -> Statement:
    unknown = value.keys() - ELEMENTS
    if unknown:
        raise PolicyError(f"the statement {value.get('Sid', '')} has an unknown element: {min(unknown)}")
    if value.get("Effect") not in ("Allow", "Deny"):
        raise PolicyError(f"the statement {value.get('Sid', '')} has no Effect: write Allow or Deny")
    if ("Action" in value) == ("NotAction" in value) or ("Resource" in value) == ("NotResource" in value):
        raise PolicyError(
            f"the statement {value.get('Sid', '')} needs Action or NotAction, and Resource or NotResource"
        )
    conditions = tuple(
        _condition(operator, key, values)
        for operator, keys in (value.get("Condition") or {}).items()
        for key, values in keys.items()
    )
    return Statement(
        allows=value["Effect"] == "Allow",
        actions=_several(value.get("Action", value.get("NotAction"))),
        resources=_several(value.get("Resource", value.get("NotResource"))),
        conditions=conditions,
        other_actions="NotAction" in value,
        other_resources="NotResource" in value,
    )


def _condition(operator: str, key: str, values: Any) -> Condition:
    quantifier, _, name = operator.rpartition(":")
    if quantifier not in ("", "ForAllValues", "ForAnyValue") or name.removesuffix("IfExists") not in OPERATORS:
        raise PolicyError(f"the condition operator {operator} is not known here")
    return Condition(operator, key.lower(), _several(values))


def _several(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(str(value).lower() if isinstance(value, bool) else str(value) for value in values)


REMEMBERED = 16_384
"""Comparisons to remember: a fleet of hundreds of overrides asks the same of the same subnets, images and tags."""


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(item) or re.escape(item) for item in text), re.DOTALL)


@lru_cache(maxsize=REMEMBERED)
def _like(actual: str, pattern: str) -> bool:
    """Whether a text matches a pattern. ``*`` matches any characters, ``?`` one."""
    return _pattern(pattern).fullmatch(actual) is not None


@lru_cache(maxsize=REMEMBERED)
def arn_like(actual: str, pattern: str) -> bool:
    """Whether an ARN matches a pattern. No wildcard spans two of the fields that colons separate, except a lone ``*``.
    The last field, the resource, may have colons of its own.
    """
    if pattern == "*":
        return True
    fields, patterns = actual.split(":", ARN_FIELDS - 1), pattern.split(":", ARN_FIELDS - 1)
    if len(fields) != len(patterns):
        return False
    return all(_like(field, pattern) for field, pattern in zip(fields, patterns, strict=True))


def _compared(compare: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    def matches(actual: str, value: str) -> bool:
        try:
            return compare(float(actual), float(value))
        except ValueError:
            return False

    return matches


def _equal(actual: str, value: str) -> bool:
    return actual == value


def _same_letters(actual: str, value: str) -> bool:
    return actual.lower() == value.lower()


OPERATORS: dict[str, tuple[Callable[[str, str], bool], bool]] = {
    "StringEquals": (_equal, False),
    "StringNotEquals": (_equal, True),
    "StringEqualsIgnoreCase": (_same_letters, False),
    "StringNotEqualsIgnoreCase": (_same_letters, True),
    "StringLike": (_like, False),
    "StringNotLike": (_like, True),
    "ArnEquals": (arn_like, False),
    "ArnNotEquals": (arn_like, True),
    "ArnLike": (arn_like, False),
    "ArnNotLike": (arn_like, True),
    "Bool": (_same_letters, False),
    "Null": (_equal, False),
    "NumericEquals": (_compared(lambda item, other: item == other), False),
    "NumericNotEquals": (_compared(lambda item, other: item == other), True),
    "NumericLessThan": (_compared(lambda item, other: item < other), False),
    "NumericLessThanEquals": (_compared(lambda item, other: item <= other), False),
    "NumericGreaterThan": (_compared(lambda item, other: item > other), False),
    "NumericGreaterThanEquals": (_compared(lambda item, other: item >= other), False),
}
"""How an operator compares a value of the request with one of the policy, and whether it is negated."""


def tags_context(prefix: str, tags: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The condition keys of tags, such as those of ``aws:RequestTag``."""
    return {f"{prefix}/{key}".lower(): (value,) for key, value in tags.items()}


def context(*parts: Mapping[str, str | Iterable[str]]) -> Context:
    """Condition keys, of which each has one value or several."""
    result: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for key, value in part.items():
            result[key.lower()] = (value,) if isinstance(value, str) else tuple(value)
    return result
