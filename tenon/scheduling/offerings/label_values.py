"""Detects values that are not valid label values.

A pod may require one in its node affinity, because not every API server validates those values. No node can have such a
label, and the API server rejects a NodeClaim that names the value. So the engine leaves these values out of a new
node's requirements.
"""

from __future__ import annotations

import re

from tenon.apis.common import LABEL_VALUE_PATTERN
from tenon.kube.requirements import IN, Requirement, Requirements

_MAX_LENGTH = 63
_VALUE = re.compile(LABEL_VALUE_PATTERN)
_SHOWN = 100


def possible(requirement: Requirement) -> Requirement:
    """The requirement without values that are not valid label values."""
    possible_values = frozenset(value for value in requirement.members if _is_value(value))
    if len(possible_values) == len(requirement.members):
        return requirement
    return Requirement(
        requirement.key,
        requirement.complement,
        possible_values,
        gte=requirement.gte,
        lte=requirement.lte,
        min_values=requirement.min_values,
        may_be_absent=requirement.may_be_absent,
    )


def impossible(term: Requirements) -> str:
    """Explain why no node can meet the term: no value that it requires for some label is a valid label value.

    Empty if the term has no such label.
    """
    for key in sorted(term):
        requirement = term[key]
        if requirement.operator == IN and not any(map(_is_value, requirement.members)):
            return (
                f"it asks for a node with label {key} {requirement.values[0][:_SHOWN]!r}, and no label can have that"
                f" value: at most {_MAX_LENGTH} letters, digits, '-', '_' and '.' may be in it, and it begins and ends"
                " with a letter or digit"
            )
    return ""


def _is_value(text: str) -> bool:
    return len(text) <= _MAX_LENGTH and _VALUE.fullmatch(text) is not None
