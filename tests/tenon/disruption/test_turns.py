"""In which order and how often consolidation looks at the nodes of a large cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.disruption.deciding import decide
from tenon.disruption.decision import Decision
from tenon.disruption.methods import consolidation
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.search import turns
from tenon.disruption.search.turns import LEAST, Turn, next_turn
from tenon.messages.disruption import LastConsidered, PassCursor
from tenon.scheduling.deadline import Expired, never
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, PoolSpec, situation


def details(pool_of: Mapping[str, str], prices: Mapping[str, float] | None = None) -> dict[str, NodeDetail]:
    entries = prices or {}
    return {
        claim: NodeDetail(claim, "m5.large", "us-west-2a", "on-demand", entries.get(claim, 1.0), (), 1.0)
        for claim in pool_of
    }


def a_round(
    pool_of: Mapping[str, str], prices: Mapping[str, float] | None = None, cursor: PassCursor | None = None
) -> list[Turn]:
    """The turns until every candidate was looked at."""
    cursor, result = cursor or PassCursor(), list[Turn]()
    while not result or cursor.more:
        result.append(next_turn(pool_of, details(pool_of, prices), cursor))
        cursor = result[-1].following(expired=False)
    return result


def pools(**sizes: int) -> dict[str, str]:
    return {f"{pool}-{number:04}": pool for pool, size in sizes.items() for number in range(size)}


def test_a_small_cluster_is_one_turn_and_has_no_cursor() -> None:
    (turn,) = a_round(pools(a=600, b=400))
    assert len(turn.claims) == 1_000
    assert turn.ends == PassCursor()


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 40)), st.data())
def test_a_round_considers_each_node_once_the_costliest_of_each_pool_first(
    sizes: dict[str, int], data: st.DataObject
) -> None:
    pool_of = pools(**sizes)
    prices = {claim: data.draw(st.sampled_from((0.1, 0.25, 0.7)), label=claim) for claim in pool_of}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "MOST", 25)
        result = a_round(pool_of, prices)
    claims = [claim for turn in result for claim in turn.claims]
    assert sorted(claims) == sorted(pool_of)
    assert len(result) == max(1, -(-len(pool_of) // 25))
    for pool in sizes:
        own = [prices[claim] for claim in claims if pool_of[claim] == pool]
        assert own == sorted(own, reverse=True)


def test_qrk12_a_large_pool_delays_no_other() -> None:
    """300 nodes in 20 pools next to 5,000 of another."""
    pool_of = pools(large=5_000, **{f"p{number:02}": 15 for number in range(20)})
    first, *later = a_round(pool_of)
    counts = Counter(pool_of[claim] for claim in first.claims)
    assert counts.pop("large") == 700
    assert set(counts.values()) == {15}
    assert [len(turn.claims) for turn in later] == [1_000, 1_000, 1_000, 1_000, 300]


def test_the_cursor_goes_on_after_a_restart_and_through_changes() -> None:
    """Nodes that left do not matter, and new ones with a later rank are looked at in the same round."""
    pool_of = pools(a=2_500)
    first = next_turn(pool_of, details(pool_of), PassCursor())
    model_validate_json = PassCursor.model_validate_json(first.ends.model_dump_json())
    changed = {claim: pool for claim, pool in pool_of.items() if claim != "a-0999"} | {"a-9999": "a", "b-0": "b"}
    claims = [claim for turn in a_round(changed, cursor=model_validate_json) for claim in turn.claims]
    assert sorted(claims) == [*sorted(pool_of)[1_000:], "a-9999", "b-0"]


def test_a_round_begins_when_no_node_is_left_after_the_cursor() -> None:
    pool_of = pools(a=5)
    cursor = PassCursor(last={"a": LastConsidered(price_per_cost=1.0, claim="a-9999")}, more=True)
    turn = next_turn(pool_of, details(pool_of), cursor)
    assert (len(turn.claims), turn.ends) == (5, PassCursor())


def test_a_pool_without_candidates_keeps_its_place() -> None:
    """For example while its budget allows nothing. Otherwise each round would begin with the same nodes."""
    pair = pools(a=2_000, b=2_000)
    begun = next_turn(pair, details(pair), PassCursor()).ends
    only = {claim: pool for claim, pool in pair.items() if pool == "b"}
    ends = a_round(only, cursor=begun)[-1].ends
    assert (ends.more, ends.last) == (False, {"a": begun.last["a"]})
    assert next_turn({}, {}, ends).ends == ends


def test_a_turn_that_ran_out_of_time_is_repeated_with_half_of_its_nodes() -> None:
    pool_of = pools(a=1_600)
    node_details = details(pool_of)
    turn, sizes, cursor = next_turn(pool_of, node_details, PassCursor()), list[int](), PassCursor()
    for _ in range(8):
        turn = next_turn(pool_of, node_details, cursor)
        sizes.append(len(turn.claims))
        cursor = turn.following(expired=True)
    assert sizes == [1_000, 500, 250, 125, 62, 31, 15, LEAST]
    assert cursor.last["a"].claim == "a-0009", "it moves on in the end"
    later = next_turn(pool_of, node_details, cursor)
    assert len(later.claims) == LEAST
    assert later.ends.most == 2 * LEAST


def test_consolidation_looks_at_its_turn_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cursor, as in `tenon simulate`, at all nodes."""
    monkeypatch.setattr(turns, "MOST", 4)
    cluster = Cluster(
        pools={"default": PoolSpec(budgets=[{"nodes": "100%"}]), "held": PoolSpec(budgets=[{"nodes": "0"}])},
        nodes={
            f"n{number}": NodeSpec(
                type="m5.xlarge",
                pool="held" if number == 9 else "default",
                pods=[PodSpec.model_validate({"cpu": "100m", "memory": "128Mi"})],
            )
            for number in range(10)
        },
    )

    def decided(cursor: PassCursor | None, expired: Expired = never) -> Decision:
        decision = decide(replace(situation(cluster), cursor=cursor), [Consolidation(deadline=lambda: expired)])
        assert not decision.failed
        return decision

    first = decided(PassCursor())
    assert first.cursor is not None
    assert first.cursor.more
    leaving = {candidate.node.claim for command in first.commands for candidate in command.candidates}
    assert len(leaving) == 4
    assert set(first.cursor.last) == {"default"}, "a budget that allows nothing makes no candidates"
    everything = decided(None)
    assert everything.cursor is None
    assert sum(len(command.candidates) for command in everything.commands) >= 8
    assert decided(first.cursor, lambda: True).cursor == first.cursor, "other methods took all the time"


@pytest.mark.parametrize("count", [1, 2, 10, 100])
def test_passes_get_past_a_node_that_the_engine_fails_on(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are looked at, also in a cluster that is smaller than any turn."""
    bad = f"n{count // 2:03}"
    observations: set[str] = set()

    def failing(model: object, candidates: Sequence[str], *terms: object) -> list[object]:
        if bad in candidates:
            raise RuntimeError("the engine failed")
        observations.update(candidates)
        return []

    monkeypatch.setattr(consolidation, "search", failing)
    names = [f"n{number:03}" for number in range(count)]
    value = situation(Cluster(nodes=dict.fromkeys(names, NodeSpec(pods=[PodSpec()]))))
    cursor, failures = PassCursor(), 0
    for _ in range(30):
        decision = decide(replace(value, cursor=cursor), [Consolidation()])
        failures += bool(decision.failed)
        assert decision.cursor is not None
        cursor = decision.cursor
        if not cursor.more:
            break
    assert not cursor.more
    assert failures >= 1
    assert observations == {*names} - {bad}
