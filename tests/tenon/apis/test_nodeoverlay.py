"""NodeOverlays that are accepted or refused (NO-01 to NO-05)."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.validation import parse
from tests.tenon.apis.case import REMOVED, edited, term
from tests.tenon.apis.sample_overlay import BASE

OPERATORS = [
    term("a", "In", "b"),
    term("a", "NotIn", "b"),
    term("a", "Exists"),
    term("a", "DoesNotExist"),
    *(term("a", operator, "5") for operator in ("Gt", "Lt", "Gte", "Lte")),
]


@pytest.mark.parametrize(
    "edits",
    [
        {},
        {"requirements": OPERATORS},
        {"requirements": [term(f"k{i}", "Exists") for i in range(100)]},
        *({"price": price} for price in ("0", "1", "0.096", "12.50")),
        *({"priceAdjustment": text} for text in ("+0.5", "-0.5", "+.5", "-10%", "+250%", "-100%", "-99.9%", "+0.5%")),
        {"capacity": {"example.com/x": 5, "hugepages-2Mi": "100Mi"}},
        *({"weight": weight} for weight in (1, 10_000)),
        {"price": "1", "capacity": {"nvidia.com/gpu": "4"}, "weight": 3},
    ],
    ids=str,
)
def test_accepted(edits: dict[str, Any]) -> None:
    overlay, problems = parse(NodeOverlay, edited(BASE, edits))
    assert overlay is not None
    assert problems == []


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"requirements": REMOVED}, "spec.requirements: is required"),
        ({"requirements": [term(f"k{i}", "Exists") for i in range(101)]}, "spec.requirements"),
        ({"requirements": [term("a", "In")]}, "spec.requirements[0]: operators In and NotIn need at least one value"),
        ({"requirements": [term("a", "NotIn")]}, "In and NotIn need at least one value"),
        ({"requirements": [term("a", "Gt", "x")]}, "exactly one value"),
        ({"requirements": [term("a", "Near", "x")]}, "operator"),
        *(({"price": price}, "spec.price") for price in ("-1", "1.", ".5", "1e3", "$1", "", "1\n")),
        *(
            ({"priceAdjustment": text}, "spec.priceAdjustment")
            for text in ("0.5", "10%", "-101%", "-100.1%", "+", "+%", "-%", "5-")
        ),
        ({"price": "1", "priceAdjustment": "+1"}, "exclude each other"),
        *(({"capacity": {name: "1"}}, name) for name in ("cpu", "memory", "ephemeral-storage", "pods")),
        ({"capacity": {"example.com/x": "-1"}}, "it must not be negative"),
        ({"capacity": {"example.com/x": "much"}}, "is not a quantity"),
        *(({"weight": weight}, "spec.weight") for weight in (0, 10_001, -1)),
    ],
    ids=str,
)
def test_refused(edits: dict[str, Any], why: str) -> None:
    _, problems = parse(NodeOverlay, edited(BASE, edits))
    assert any(why in str(problem) for problem in problems), problems
