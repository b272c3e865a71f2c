"""When many things look lost at once, nothing is ended for that until a person confirms it; what is certain goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.garbage_collection.brake import BRAKED, HeldBack, held_back, is_too_many
from tenon.garbage_collection.decide import GRACES, findings
from tenon.garbage_collection.facts import Observations
from tenon.garbage_collection.findings import FindingKind
from tests.tenon.garbage_collection.test_decide import NOW, WORLDS, claim, instance, node, workflow, world

LATELY = NOW - timedelta(minutes=20)


def fleet(count: int, **fields: Any) -> Observations:
    """A cluster of healthy nodes. ``fields`` replace records."""
    numbers = range(count)
    output = world(
        claims=tuple(claim(number) for number in numbers),
        instances=tuple(instance(number) for number in numbers),
        nodes=tuple(node(number) for number in numbers),
        workflows=tuple(workflow(number) for number in numbers),
    )
    return replace(output, **fields)


def not_ready(count: int, total: int) -> tuple[Any, ...]:
    return tuple(node(number, ready=number >= count) for number in range(total))


def split(observations: Observations, confirmed: int = 0) -> tuple[dict[FindingKind, int], dict[FindingKind, HeldBack]]:
    """How many findings of each kind a sweep acts on, and what it holds back."""
    free, hold = held_back(findings(observations), observations, GRACES, confirmed)
    counts = {kind: sum(item.kind is kind for item in free) for kind in FindingKind}
    return {kind: count for kind, count in counts.items() if count}, {item.kind: item for item in hold}


def test_no_node_leaves_if_ec2_does_not_know_most_instances() -> None:
    """As with another account. Only two Nodes are not Ready, but the others' instances are missing too."""
    observations = fleet(20, instances=(), nodes=not_ready(2, 20))
    acted, hold = split(observations)
    assert acted == {}
    assert (hold[FindingKind.CLAIM_WITHOUT_INSTANCE].missing, hold[FindingKind.CLAIM_WITHOUT_INSTANCE].total) == (
        20,
        20,
    )
    assert len(hold[FindingKind.CLAIM_WITHOUT_INSTANCE].findings) == 2
    why = hold[FindingKind.CLAIM_WITHOUT_INSTANCE].why
    assert "20 of 20 NodeClaims have an instance that EC2 does not know" in why
    assert "then confirm it as docs/garbage-collection.md says" in why


def test_nodes_leave_whose_instances_ec2_calls_terminated_however_many_they_are() -> None:
    """As after the failure of a zone, or a spot reclaim of all."""
    states = {f"i-{number}": "terminated" for number in range(20)}
    assert split(fleet(20, instances=(), nodes=not_ready(20, 20), states=states)) == (
        {FindingKind.CLAIM_WITHOUT_INSTANCE: 20},
        {},
    )


def test_a_claim_whose_living_instance_lacks_the_clusters_tags_is_not_lost() -> None:
    """A Karpenter version before 1.0 bought it."""
    states = {f"i-{number}": "running" for number in range(20)}
    assert split(fleet(20, instances=(), nodes=not_ready(20, 20), states=states)) == ({}, {})


def test_no_node_leaves_while_it_is_not_known_what_ec2_says_of_unlisted_instances() -> None:
    assert split(fleet(20, instances=(), nodes=not_ready(2, 20), states=None)) == ({}, {})


@pytest.mark.parametrize(
    ("missing", "total", "too_many"), [(5, 5, False), (6, 30, False), (6, 29, True), (20, 99, True)]
)
def test_more_than_five_and_more_than_a_fifth_are_too_many(missing: int, total: int, *, too_many: bool) -> None:
    assert is_too_many(missing, total) is too_many


def test_instances_stay_if_most_nodeclaims_are_missing() -> None:
    """As after a restore of an old backup, or with the API server of another cluster of the same name."""
    kinds = {FindingKind.INSTANCE_WITHOUT_CLAIM, FindingKind.WORKFLOW_WITHOUT_CLAIM}
    remainder = {f"i-{number}": NOW - GRACES.left_to_workflow for number in range(20)}
    acted, hold = split(fleet(20, claims=(claim(0),), left_since=remainder))
    assert acted == {}
    assert hold.keys() == kinds
    assert all((item.missing, item.total) == (19, 20) for item in hold.values())
    assert split(fleet(20, claims=(claim(0),), nodes=(node(0),), workflows=()))[0] == {
        FindingKind.CLAIM_WITHOUT_WORKFLOW: 1
    }


@pytest.mark.parametrize("workflows", [(), tuple(workflow(number) for number in range(50))])
def test_many_young_instances_without_claim_and_node_wait_too(workflows: tuple[Any, ...]) -> None:
    """As with another API server, or after a restore of a backup from before their launch. They may run pods.

    With open workflows, the instances were left to these for half an hour, because the workflows wait themselves.
    """
    young = tuple(instance(number, launched_at=NOW - timedelta(minutes=50)) for number in range(50))
    remainder = {item.id: NOW - timedelta(minutes=31) for item in young}
    acted, hold = split(world(instances=young, workflows=workflows, left_since=remainder))
    assert acted == {}
    assert (hold[FindingKind.INSTANCE_WITHOUT_CLAIM].missing, hold[FindingKind.INSTANCE_WITHOUT_CLAIM].total) == (
        50,
        50,
    )


def test_few_instances_that_launches_bought_in_vain_are_ended() -> None:
    bought = tuple(instance(number + 100, launched_at=LATELY) for number in range(10))
    healthy = fleet(40)
    changed_healthy = replace(healthy, instances=(*(healthy.instances or ()), *bought))
    assert split(changed_healthy) == ({FindingKind.INSTANCE_WITHOUT_CLAIM: 10}, {})
    one_more = instance(110, launched_at=LATELY)
    assert split(replace(changed_healthy, instances=(*(changed_healthy.instances or ()), one_more)))[0] == {}


def test_instances_that_are_left_to_workflows_count_among_the_missing() -> None:
    """A sweep remembers only a hundred of them for the next one, so of many only a small share waited long enough."""
    remembered = {f"i-{number}": NOW - GRACES.left_to_workflow for number in range(100)}
    acted, hold = split(fleet(600, claims=(), left_since=remembered))
    assert acted == {}
    assert len(hold[FindingKind.INSTANCE_WITHOUT_CLAIM].findings) == 100
    assert (hold[FindingKind.INSTANCE_WITHOUT_CLAIM].missing, hold[FindingKind.INSTANCE_WITHOUT_CLAIM].total) == (
        600,
        600,
    )


def test_an_instance_stays_while_its_workflow_waits_for_a_person() -> None:
    """Seven of thirty workflows that do not leave, but only seven of a hundred instances, have no NodeClaim."""
    claims = tuple(claim(number) for number in range(7, 100))
    workflows = tuple(workflow(number, leaving=number >= 30) for number in range(100))
    remainder = {f"i-{number}": NOW - GRACES.left_to_workflow for number in range(7)}
    observations = fleet(100, claims=claims, workflows=workflows, left_since=remainder)
    acted, hold = split(observations)
    assert acted == {}
    assert hold.keys() == {FindingKind.WORKFLOW_WITHOUT_CLAIM}
    assert hold[FindingKind.WORKFLOW_WITHOUT_CLAIM].why.startswith("7 of 30 workflows of nodes have no NodeClaim")
    assert split(observations, confirmed=14)[0] == {
        FindingKind.WORKFLOW_WITHOUT_CLAIM: 7,
        FindingKind.INSTANCE_WITHOUT_CLAIM: 7,
    }


def test_second_instances_of_claims_are_ended_however_many_they_are() -> None:
    """The NodeClaim exists and names the instance that is its own."""
    firsts = [instance(number) for number in range(20)]
    seconds = [instance(number + 100, claim=f"c-{number}") for number in range(20)]
    assert split(fleet(20, instances=(*firsts, *seconds))) == ({FindingKind.INSTANCE_WITHOUT_CLAIM: 20}, {})


def test_workflows_of_claims_that_were_replaced_end_however_many_they_are() -> None:
    workflows = tuple(workflow(number, uid="earlier") for number in range(20))
    assert split(fleet(20, workflows=workflows)) == ({FindingKind.WORKFLOW_WITHOUT_CLAIM: 20}, {})


def test_many_nodes_without_claim_are_released_at_once_only_if_ec2_calls_their_instances_terminated() -> None:
    observations = world(nodes=not_ready(20, 20))
    assert split(observations)[0] == {}
    terminated = {f"i-{number}": "terminated" for number in range(20)}
    assert split(replace(observations, states=terminated))[0] == {FindingKind.NODE_WITHOUT_CLAIM: 20}


def test_no_node_leaves_if_many_nodes_vanished_at_once() -> None:
    """As with an incomplete answer."""
    acted, hold = split(fleet(20, nodes=tuple(node(number) for number in range(6, 20))))
    assert acted == {}
    assert "6 of 20 NodeClaims have lost their Node" in hold[FindingKind.CLAIM_WITHOUT_NODE].why
    assert split(fleet(20, nodes=tuple(node(number) for number in range(2, 20))))[0] == {
        FindingKind.CLAIM_WITHOUT_NODE: 2
    }


def test_a_person_confirms_as_many_findings_as_were_seen() -> None:
    observations = fleet(20, instances=(), nodes=not_ready(10, 20))
    assert split(observations, confirmed=9)[0] == {}, "more are lost than a person has seen"
    assert split(observations, confirmed=10) == ({FindingKind.CLAIM_WITHOUT_INSTANCE: 10}, {})


def test_many_missing_instances_hold_back_nothing_of_other_kinds() -> None:
    bought = tuple(instance(number + 100, launched_at=LATELY) for number in range(3))
    acted, hold = split(fleet(20, instances=bought, nodes=not_ready(10, 20)))
    assert (acted, set(hold)) == ({FindingKind.INSTANCE_WITHOUT_CLAIM: 3}, {FindingKind.CLAIM_WITHOUT_INSTANCE})


@given(WORLDS, st.integers(0, 10))
def test_a_finding_is_either_free_or_held_back_and_only_uncertain_ones_are_held(
    observations: Observations, confirmed: int
) -> None:
    result = findings(observations)
    free, hold = held_back(result, observations, GRACES, confirmed)
    waiting = [finding for item in hold for finding in item.findings]
    assert sorted(free.key for free in [*free, *waiting]) == sorted(item.key for item in result)
    assert all(item.kind in BRAKED and not item.confirmed for item in waiting)
    assert not hold or len(waiting) > confirmed


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 60))
def test_without_a_confirmation_a_sweep_never_ends_more_unknown_nodes_than_the_limit(
    total: int, unknown: int, unready: int
) -> None:
    """Whatever EC2 does not know and whatever is not Ready."""
    listed = tuple(instance(number) for number in range(min(unknown, total), total))
    acted, _ = split(fleet(total, instances=listed, nodes=not_ready(unready, total)))
    ended = acted.get(FindingKind.CLAIM_WITHOUT_INSTANCE, 0)
    assert ended <= max(5, total / 5)
    if unknown <= 5:
        assert ended == min(unknown, unready, total)
