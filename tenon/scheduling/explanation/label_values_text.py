"""Puts the values that a label has, or that a requirement asks for, into sentences."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.apis import labels
from tenon.kube.requirements import IN, Requirement

_VALUES_SHOWN = 5


def beyond_subnets(requirement: Requirement, zones: frozenset[str]) -> str:
    """Say that the required zones have no subnet in the EC2NodeClass, whose subnets are in ``zones``; empty if one has.

    If ``zones`` is empty, the subnets are unknown and nothing is said.
    """
    if requirement.key != labels.ZONE or requirement.operator != IN or not zones or any(map(requirement.has, zones)):
        return ""
    values_text = listed(requirement.values)
    verb = "zones {} are" if len(requirement.values) > 1 else "zone {} is"
    return f"{verb.format(values_text)} in no subnet of its EC2NodeClass (its subnets are in {listed(zones)})"


def format_values(values: Iterable[str]) -> str:
    """Format the values that a label has, in parentheses."""
    text = listed(values)
    return f" (available: {text})" if text else " (none has that label)"


def listed(values: Iterable[str]) -> str:
    """Format the first few values, numbers in numeric order, and the number of others."""
    ordered = sorted(values, key=lambda value: (len(value), value) if value.isdecimal() else (0, value))
    hidden_count = len(ordered) - _VALUES_SHOWN
    return f"{', '.join(ordered[:_VALUES_SHOWN])}{f' and {hidden_count} others' if hidden_count > 0 else ''}"
