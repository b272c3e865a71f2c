"""Which nodes a wave replaces: all in the end, never too many at once, and the same after a restart."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.noderollout import RolloutStrategy
from tenon.rollout.waves import RolloutNode, Wave, foreseen_waves, goals, next_wave, segments, share, state_of

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = st.lists(st.sampled_from(["1", "3", "10%", "25%", "50%", "7"]), max_size=4).map(lambda waves: [*waves, "100%"])


def fleet(count: int, zones: int = 1) -> list[RolloutNode]:
    return [
        RolloutNode(f"web-{place}", f"zone-{place % zones}", BEGIN + timedelta(minutes=place), outdated=True)
        for place in range(count)
    ]


@given(PLAN, st.integers(0, 300))
def test_waves_never_go_back_and_end_with_all_nodes(waves: list[str], count: int) -> None:
    reached = goals(waves, count)
    assert list(reached) == sorted(reached)
    assert reached[-1] == count


@pytest.mark.parametrize(("text", "count", "nodes"), [("1", 60, 1), ("10%", 60, 6), ("10%", 1, 1), ("0", 5, 0)])
def test_percentages_round_up(text: str, count: int, nodes: int) -> None:
    assert share(text, count) == nodes


@given(
    waves=PLAN,
    most=st.sampled_from(["1", "3", "10%", "100%"]),
    order=st.sampled_from(["Fleet", "Zone"]),
    count=st.integers(1, 40),
    zones=st.integers(1, 3),
    data=st.data(),
)
def test_waves_reach_every_node_and_never_more_than_allowed(
    waves: list[str], most: str, order: str, count: int, zones: int, data: st.DataObject
) -> None:
    strategy = RolloutStrategy.model_validate({"waves": waves, "maxUnavailable": most, "order": order})
    nodes = fleet(count, zones)
    allowed = share(most, count)
    wave = next_wave(None, nodes, strategy)
    begun: tuple[str, ...] = ()
    steps = 0
    while wave is not None:
        steps += 1
        assert steps < 2000, "every step goes on"
        state = state_of(wave, nodes, strategy, begun)
        again = state_of(wave, nodes, strategy, state.claims)
        assert again.claims == state.claims, "asking again, as after a restart, chooses no others"
        assert set(begun) <= set(state.claims), "what was chosen stays chosen"
        assert len(state.claims) <= allowed
        replaced = sum(1 for node in nodes if not node.outdated and wave.segment in ("", node.zone))
        size = sum(1 for node in nodes if wave.segment in ("", node.zone))
        assert replaced + len(state.claims) <= max(goals(waves, size)[wave.index], replaced)
        if state.complete:
            wave, begun = next_wave(wave, nodes, strategy), ()
            continue
        ended = data.draw(st.sampled_from(state.claims))
        # The replacement is initialized before the node is gone.
        nodes = [replace(node, claim=f"{ended}-new", outdated=False) if node.claim == ended else node for node in nodes]
        begun = tuple(claim for claim in state.claims if claim != ended)
    assert not any(node.outdated for node in nodes)


def test_a_node_that_leaves_for_another_reason_counts_too() -> None:
    strategy = RolloutStrategy.model_validate({"waves": ["100%"], "maxUnavailable": "2"})
    nodes = fleet(5)
    nodes[4] = replace(nodes[4], leaving=True)
    assert state_of(Wave("", 0), nodes, strategy, ()).claims == ("web-0", "web-4")


def test_a_new_node_that_is_not_initialized_counts_as_unavailable() -> None:
    strategy = RolloutStrategy.model_validate({"waves": ["100%"], "maxUnavailable": "1"})
    nodes = [*fleet(3), RolloutNode("web-new", "zone-0", BEGIN, outdated=False, initialized=False)]
    assert state_of(Wave("", 0), nodes, strategy, ()).claims == ()


def test_no_node_may_be_unavailable_means_that_none_is_replaced() -> None:
    strategy = RolloutStrategy.model_validate({"maxUnavailable": "0"})
    assert state_of(Wave("", 0), fleet(3), strategy, ()).claims == ()


def test_zones_come_one_after_the_other() -> None:
    strategy = RolloutStrategy.model_validate({"waves": ["1", "100%"], "order": "Zone"})
    nodes = fleet(6, zones=2)
    assert segments(nodes, strategy) == ("zone-0", "zone-1")
    wave: Wave | None = None
    order = []
    while (wave := next_wave(wave, nodes, strategy)) is not None:
        order.append((wave.segment, wave.index))
    assert order == [("zone-0", 0), ("zone-0", 1), ("zone-1", 0), ("zone-1", 1)]


@given(waves=PLAN, order=st.sampled_from(["Fleet", "Zone"]), count=st.integers(0, 60), zones=st.integers(1, 3))
def test_foreseen_waves_replace_every_outdated_node_once(waves: list[str], order: str, count: int, zones: int) -> None:
    strategy = RolloutStrategy.model_validate({"waves": waves, "maxUnavailable": "1", "order": order})
    nodes = [replace(node, outdated=place % 3 > 0) for place, node in enumerate(fleet(count, zones))]
    foreseen = foreseen_waves(nodes, strategy)
    replaced = [claim for _, claims in foreseen for claim in claims]
    assert sorted(replaced) == sorted(node.claim for node in nodes if node.outdated)
    assert [wave for wave, _ in foreseen] == sorted((wave for wave, _ in foreseen), key=lambda w: (w.segment, w.index))


def test_a_foreseen_wave_has_the_oldest_nodes_up_to_its_goal() -> None:
    strategy = RolloutStrategy.model_validate({"waves": ["1", "10%", "100%"]})
    waves = [claims for _, claims in foreseen_waves(fleet(30), strategy)]
    assert [len(claims) for claims in waves] == [1, 2, 27]
    assert waves[:2] == [("web-0",), ("web-1", "web-2")]
