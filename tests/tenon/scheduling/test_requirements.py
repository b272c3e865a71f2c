"""The requirement algebra, case by case (SCH-020 to SCH-030)."""

from __future__ import annotations

import pytest

from tenon.apis import labels
from tenon.kube.requirements import Requirement, Requirements
from tests.tenon.scheduling.builders import need


@pytest.mark.parametrize(
    ("requirement", "inside", "outside"),
    [
        (need("k", "In", "a", "b"), ["a", "b"], ["c", ""]),
        (need("k", "NotIn", "a"), ["b", ""], ["a"]),
        (need("k", "Exists"), ["a", "1"], []),
        (need("k", "DoesNotExist"), [], ["a", ""]),
        (need("k", "Gt", "4"), ["5", "100"], ["4", "3", "large", ""]),
        (need("k", "Gte", "4"), ["4"], ["3"]),
        (need("k", "Lt", "4"), ["3", "0"], ["4", "x"]),
        (need("k", "Lte", "4"), ["4"], ["5"]),
        (need("k", "Lt", "0"), [], ["0", "-1"]),
        (need("k", "Gt", "-1"), ["0", "7"], ["x"]),
        (need("k", "Gt", "99999999999999999999"), [], ["9223372036854775807", "5"]),
        (need("k", "Lt", "99999999999999999999"), ["9223372036854775807", "5"], ["x"]),
        (need("k", "Gt", "9223372036854775807"), [], ["9223372036854775807", "9223372036854775808"]),
    ],
)
def test_sch021_sch023_each_operator_has_its_values(
    requirement: Requirement, inside: list[str], outside: list[str]
) -> None:
    assert [v for v in inside if not requirement.has(v)] == []
    assert [v for v in outside if requirement.has(v)] == []


@pytest.mark.parametrize(
    ("requirement", "right", "operator", "values"),
    [
        (need("k", "NotIn", "a"), need("k", "NotIn", "b"), "NotIn", ("a", "b")),
        (need("k", "NotIn", "a"), need("k", "In", "a", "b"), "In", ("b",)),
        (need("k", "In", "a", "b"), need("k", "In", "b", "c"), "In", ("b",)),
        (need("k", "In", "a"), need("k", "In", "b"), "DoesNotExist", ()),
        (need("k", "In", "1", "5", "x"), need("k", "Gt", "3"), "In", ("5",)),
        (need("k", "Gt", "5"), need("k", "Lt", "6"), "DoesNotExist", ()),
        (need("k", "Gt", "5"), need("k", "Lt", "7"), "Exists", ()),
        (need("k", "NotIn", "4", "9", "x"), need("k", "Gt", "5"), "NotIn", ("9",)),
        (need("k", "Exists"), need("k", "DoesNotExist"), "DoesNotExist", ()),
        (need("k", "Exists"), need("k", "NotIn", "a"), "NotIn", ("a",)),
    ],
)
def test_sch022_sch024_intersection_reads_back_as(
    requirement: Requirement, right: Requirement, operator: str, values: tuple[str, ...]
) -> None:
    met = requirement.intersection(right)
    assert (met.operator, met.values) == (operator, values)


def test_sch022_bounds_vanish_once_the_set_is_concrete() -> None:
    met = need("k", "Gt", "3").intersection(need("k", "In", "4", "5"))
    assert met == need("k", "In", "4", "5")


def test_sch022_the_larger_min_values_wins() -> None:
    assert need("k", "Exists", least=2).intersection(need("k", "Exists", least=5)).min_values == 5


def test_qrk21_a_contradiction_is_not_a_wish_for_absence() -> None:
    contradiction = need("k", "In", "a").intersection(need("k", "In", "b"))
    assert contradiction.is_empty()
    assert contradiction.contradicts()
    assert need("k", "DoesNotExist").is_empty()
    assert not need("k", "DoesNotExist").contradicts()


def test_sch025_bounds_are_written_as_two_entries() -> None:
    requirement = need("k", "Gt", "3").intersection(need("k", "Lt", "9")).intersection(need("k", "Exists", least=2))
    assert requirement.to_selectors() == [
        {"key": "k", "operator": "Gte", "values": ["4"], "minValues": 2},
        {"key": "k", "operator": "Lte", "values": ["8"]},
    ]


def test_sch025_the_text_names_five_values_and_counts_the_rest() -> None:
    assert str(need("k", "In", *"gfedcba")) == "k In [a b c d e and 2 others]"
    assert str(need("k", "Gt", "3", least=2)) == "k Exists >=4 minValues 2"


@pytest.mark.parametrize(("operator", "values"), [("Gt", ["x"]), ("Lt", []), ("Gte", ["1", "2"]), ("Equals", ["a"])])
def test_a_malformed_requirement_is_refused_with_its_label(operator: str, values: list[str]) -> None:
    with pytest.raises(ValueError, match="k: "):
        Requirement.new("k", operator, values)


def test_older_spellings_mean_the_same_label() -> None:
    old = need("failure-domain.beta.kubernetes.io/zone", "In", "a", "b")
    requirements = Requirements.of(old, need(labels.ZONE, "In", "b", "c"))
    assert requirements.labels() == {labels.ZONE: "b"}


@pytest.mark.parametrize(
    ("requirement", "conflicts"),
    [
        (need("team", "In", "a"), True),
        (need("team", "Exists"), True),
        (need("team", "Gt", "1"), True),
        (need("team", "NotIn", "a"), False),
        (need("team", "DoesNotExist"), False),
        (need(labels.ZONE, "In", "us-west-2a"), False),
        (need("tier", "In", "x"), False),
        (need("tier", "In", "z"), True),
        (need("tier", "DoesNotExist"), True),
        (need("spare", "DoesNotExist"), False),
        (need("spare", "NotIn", "b"), False),
        (need("gone", "NotIn", "a"), False),
        (need("gone", "Exists"), True),
    ],
)
def test_sch027_what_a_pool_can_offer_a_pod(requirement: Requirement, conflicts: bool) -> None:
    offered = Requirements.of(need("tier", "In", "x", "y"), need("spare", "NotIn", "a"), need("gone", "DoesNotExist"))
    assert (offered.conflict(Requirements.of(requirement), labels.WELL_KNOWN) is not None) is conflicts


def test_sch028_an_unknown_label_is_named_with_the_one_probably_meant() -> None:
    text = Requirements().conflict(Requirements.of(need("topology.kubernetes.io/zones", "In", "a")), labels.WELL_KNOWN)
    assert text == "label topology.kubernetes.io/zones is not defined (did you mean topology.kubernetes.io/zone?)"


def test_an_unknown_label_may_be_anything() -> None:
    unknown = Requirements().get("team")
    assert (unknown.operator, unknown.has("a"), unknown.may_be_absent) == ("Exists", True, True)


def test_intersects_looks_only_at_labels_that_both_name() -> None:
    requirements = Requirements.of(need("a", "In", "1"), need("b", "In", "1"))
    assert requirements.intersects(Requirements.of(need("b", "In", "1", "2"), need("c", "In", "9")))
    assert not requirements.intersects(Requirements.of(need("b", "NotIn", "1")))


def test_only_settled_labels_are_labels() -> None:
    settled = Requirements.of(need("a", "In", "1"), need("b", "In", "1", "2"), need("c", "NotIn", "x"))
    assert settled.labels() == {"a": "1"}
