"""Laws of the requirement algebra that must hold for any requirements (SCH-020 to SCH-025)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenon.kube.requirements import Requirement, Requirements

VALUES = ["a", "b", "0", "1", "4", "7", "-2", "010"]
values = st.lists(st.sampled_from(VALUES), max_size=4)
bounds = st.integers(-1, 8).map(lambda number: [str(number)])
least = st.none() | st.integers(1, 4)


def _requirements(key: str = "k") -> st.SearchStrategy[Requirement]:
    sets = st.builds(Requirement.new, st.just(key), st.sampled_from(["In", "NotIn"]), values, least)
    plain = st.builds(Requirement.new, st.just(key), st.sampled_from(["Exists", "DoesNotExist"]), st.just([]), least)
    bounded = st.builds(Requirement.new, st.just(key), st.sampled_from(["Gt", "Lt", "Gte", "Lte"]), bounds, least)
    return sets | plain | bounded


requirement = st.lists(_requirements(), min_size=1, max_size=3).map(lambda parts: Requirements.of(*parts)["k"])
several = st.lists(_requirements("k") | _requirements("l") | _requirements("m"), max_size=5).map(
    lambda parts: Requirements.of(*parts)
)


@given(requirement, requirement)
def test_sch022_intersection_commutes(first: Requirement, right: Requirement) -> None:
    assert first.intersection(right) == right.intersection(first)


@given(requirement, requirement, requirement)
def test_sch022_intersection_associates(a: Requirement, b: Requirement, c: Requirement) -> None:
    assert a.intersection(b).intersection(c) == a.intersection(b.intersection(c))


@given(requirement)
def test_intersection_with_itself_changes_nothing(requirement: Requirement) -> None:
    assert requirement.intersection(requirement) == requirement


@given(requirement, requirement, st.sampled_from(VALUES))
def test_sch023_has_agrees_with_membership_in_both(first: Requirement, right: Requirement, value: str) -> None:
    assert first.intersection(right).has(value) == (first.has(value) and right.has(value))


@given(requirement, requirement)
def test_overlap_is_an_intersection_that_some_node_meets(first: Requirement, right: Requirement) -> None:
    assert first.overlaps(right) == (not first.intersection(right).contradicts())
    assert first.overlaps(right) == right.overlaps(first)


@given(requirement, st.sampled_from(VALUES))
def test_sch025_the_written_form_means_the_same(requirement: Requirement, value: str) -> None:
    read = Requirements.from_terms(requirement.to_selectors())["k"]
    assert (read.operator, read.values, read.min_values) == (
        requirement.operator,
        requirement.values,
        requirement.min_values,
    )
    assert read.has(value) == requirement.has(value)
    assert read.to_selectors() == requirement.to_selectors()


@given(requirement)
def test_sch024_operator_follows_from_the_form(requirement: Requirement) -> None:
    assert (
        requirement.operator
        == {
            (False, True): "In",
            (False, False): "DoesNotExist",
            (True, True): "NotIn",
            (True, False): "Exists",
        }[requirement.complement, bool(requirement.values)]
    )


@given(several, several)
def test_adding_requirements_commutes(first: Requirements, right: Requirements) -> None:
    assert first.with_(right) == right.with_(first)
    assert hash(first.with_(right)) == hash(right.with_(first))


@given(several, several)
def test_no_conflict_means_that_all_can_be_met_together(first: Requirements, right: Requirements) -> None:
    if first.conflict(right, frozenset("klm")) is None:
        together = first.with_(right)
        assert not any(together[key].contradicts() for key in right)
        assert first.intersects(right)
