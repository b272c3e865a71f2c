"""Values that no label can have. A pod may ask for one, for not every API server looks at what node affinities ask for.

No node can have such a label, and the API server refuses a NodeClaim that names the value. So these values are left out
of what a new node is to be.
"""

from __future__ import annotations

import re

from tenon.apis.common import LABEL_VALUE_PATTERN
from tenon.kube.requirements import IN, Requirement, Requirements

_LONGEST = 63
_VALUE = re.compile(LABEL_VALUE_PATTERN)
_SHOWN = 100


def possible(requirement: Requirement) -> Requirement:
    """The requirement without the values that no label can have."""
    kept = frozenset(value for value in requirement.members if _is_value(value))
    if len(kept) == len(requirement.members):
        return requirement
    return Requirement(
        requirement.key,
        requirement.complement,
        kept,
        gte=requirement.gte,
        lte=requirement.lte,
        min_values=requirement.min_values,
        may_be_absent=requirement.may_be_absent,
    )


def impossible(term: Requirements) -> str:
    """Why no node can meet the term: all values that it asks for of a label are such that no label can have them.

    Empty where that is not so.
    """
    for key in sorted(term):
        wanted = term[key]
        if wanted.operator == IN and not any(map(_is_value, wanted.members)):
            return (
                f"it asks for a node with label {key} {wanted.values[0][:_SHOWN]!r}, and no label can have that value:"
                f" at most {_LONGEST} letters, digits, '-', '_' and '.' may be in it, and it begins and ends with a"
                " letter or digit"
            )
    return ""


def _is_value(text: str) -> bool:
    return len(text) <= _LONGEST and _VALUE.fullmatch(text) is not None
