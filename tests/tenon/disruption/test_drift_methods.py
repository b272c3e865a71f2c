"""Which drifted nodes are replaced, in which order, and by what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.nodepool import Budget
from tenon.apis.reasons import Reason
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Command, Decision, DisruptionBlocked
from tenon.disruption.methods.drift import BLOCKED_AFTER, MORE_AFTER, Drift, StaticDrift
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.search.rescheduling import Rescheduler
from tenon.disruption.situation import Situation
from tenon.kube.pod import Pod
from tenon.scheduling.model import Node, Plan, Pool, Problem
from tests.tenon.scheduling.builders import ON_DEMAND, node, pod, pool

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
OPEN = (Budget(nodes="100%"),)


class Cluster:
    """Nodes of 4 CPU at $0.192 an hour that drifted an hour ago. A NodeClaim and its Node have the same name."""

    def __init__(self, *pools: Pool) -> None:
        self.pools = list(pools) or [pool("default", ON_DEMAND)]
        self.policies = {pool.name: PoolPolicy(pool.name, timedelta(), OPEN) for pool in self.pools}
        self.static: dict[str, Pool] = {}
        self.nodes: list[Node] = []
        self.managed: list[ManagedNode] = []
        self.details: dict[str, NodeDetail] = {}

    def fixed(self, replicas: int, **changed: Any) -> None:
        """A static pool."""
        self.static["fixed"] = pool("fixed", ON_DEMAND, **changed)
        self.policies["fixed"] = PoolPolicy("fixed", None, OPEN, replicas=replicas)

    def add(
        self,
        name: str,
        *pods: Pod,
        of: str = "default",
        since: datetime | None = NOW - HOUR,
        detail: Mapping[str, Any] | None = None,
        **managed: Any,
    ) -> None:
        """A node with these pods; ``since`` None has not drifted."""
        entries = node(name, "4", labels={labels.NODEPOOL: of, labels.HOSTNAME: name}, pods=tuple(pods))
        self.nodes.append(replace(entries, used={}, pods=()).with_pods(tuple(pods)))
        ready: dict[str, Any] = {
            "initialized": True,
            "ready": True,
            "leaving": False,
            "quiet_since": None,
        }
        self.managed.append(ManagedNode(name, f"uid-{name}", of, empty=not pods, node=name, **{**ready, **managed}))
        self.details[name] = NodeDetail(
            node=name,
            instance_type="m5.xlarge",
            zone="us-west-2a",
            capacity_type="on-demand",
            price=0.192,
            pods=tuple(pods),
            cost=1.0 + len(pods),
            drifted="" if since is None else "AMIDrift",
            drift_message="" if since is None else "the image is an old one",
            drifted_since=since,
            **(detail or {}),
        )

    def situation(self, **changed: Any) -> Situation:
        model = ClusterModel(Problem([], self.pools, self.nodes), self.details, self.static)
        return replace(Situation(self.managed, self.policies, NOW, model=model), **changed)

    def decide(self, method: Drift | StaticDrift | None = None, **changed: Any) -> Decision:
        decision = decide(self.situation(**changed), [method or Drift()])
        assert not decision.failed
        for command in decision.commands:
            assert (command.reason, command.consolidation_type) == (Reason.DRIFTED, "")
            assert (command.moves_pods, command.graceful, command.only_if_empty) == (True, False, False)
            assert len(command.candidates) == 1, "one node that cannot leave holds up no other"
        return decision


def names(decision: Decision) -> list[str]:
    return [command.candidates[0].node.claim for command in decision.commands]


def the_only(decision: Decision) -> Command:
    (command,) = decision.commands
    return command


def test_dis03_pods_that_fit_nowhere_else_get_a_replacement() -> None:
    cluster = Cluster()
    cluster.add("a", pod("web", "3"))
    command = the_only(cluster.decide())
    (bought,) = command.replacements
    assert [pod.name for pod in bought.pods] == ["web"]
    assert command.destinations == {}
    assert command.expected == pytest.approx(0.192 - bought.price)
    assert command.candidates[0].since == NOW - HOUR
    assert command.explanation == (
        "AMIDrift since 2026-11-21 11:00:00 UTC: the image is an old one",
        f"replacement for 1 pod: ${bought.price:.4f} an hour ({', '.join(bought.offering[1:3])}, on-demand)",
    )


def test_dis03_pods_that_fit_on_other_nodes_move_there() -> None:
    cluster = Cluster()
    cluster.add("a", pod("web", "1"), pod("db", "1"))
    cluster.add("b", since=None)
    command = the_only(cluster.decide())
    assert command.replacements == ()
    assert {name: sorted(pod.name for pod in pods) for name, pods in command.destinations.items()} == {
        "b": ["db", "web"]
    }
    assert command.expected == pytest.approx(0.192)
    assert command.explanation[1] == "2 pods on 1 existing node"


def test_a_node_on_which_the_engine_fails_does_not_keep_others_from_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those before it in the order nor those after it; and it comes last in the next pass (DIS-78)."""
    simulate = Rescheduler.simulate

    def failing(self: Rescheduler, claims: Iterable[str], **options: Any) -> Plan:
        if list(claims) == ["b"]:
            raise ZeroDivisionError
        return simulate(self, claims, **options)

    monkeypatch.setattr(Rescheduler, "simulate", failing)
    cluster = Cluster()
    for name in "abc":
        cluster.add(name, pod(f"web-{name}", "3"))
    decision = decide(cluster.situation(), [Drift()])
    assert names(decision) == ["a", "c"]
    failed = "the search for a place for its pods failed (ZeroDivisionError)"
    assert decision.blocked == {"b": DisruptionBlocked("its node drifted (AMIDrift)", failed)}
    assert isinstance(decision.failed["drift"], ZeroDivisionError)
    assert decision.next_pass == NOW + BLOCKED_AFTER


def test_dis03_the_replacement_of_a_node_fits_into_the_limits_that_the_node_leaves() -> None:
    limited = pool("default", ON_DEMAND, limits={"nodes": "1"}, usage={"nodes": "1"})
    cluster = Cluster(limited)
    cluster.add("a", pod("web", "3"))
    assert len(the_only(cluster.decide()).replacements) == 1


def test_dis76_empty_nodes_go_first_then_the_earliest_drift_then_by_name() -> None:
    cluster = Cluster()
    cluster.add("late", pod("p1", "3"), since=NOW - HOUR)
    cluster.add("b-early", pod("p2", "3"), since=NOW - 2 * HOUR)
    cluster.add("a-early", pod("p3", "3"), since=NOW - 2 * HOUR)
    cluster.add("empty", since=NOW)
    decision = cluster.decide()
    assert names(decision) == ["empty", "a-early", "b-early", "late"]
    assert decision.commands[0].replacements == ()
    assert decision.commands[0].explanation[1] == "no pod needs another node, so nothing is bought"
    assert decision.eligible[Reason.DRIFTED] == 4


def test_dis76_dis15_a_node_whose_pods_have_no_other_place_is_skipped_and_named() -> None:
    cluster = Cluster()
    cluster.add("stuck", pod("odd", "200"), since=NOW - 9 * HOUR)
    cluster.add("free", pod("web", "3"))
    decision = cluster.decide()
    assert names(decision) == ["free"]
    assert decision.blocked.keys() == {"stuck"}
    assert str(decision.blocked["stuck"]).startswith(
        "its node drifted (AMIDrift), but pod default/odd has no other place: "
    )
    assert decision.next_pass == NOW + BLOCKED_AFTER


@pytest.fixture
def after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Drift]:
    """``after(3)``: the method with a deadline that passes after so many simulations of a pass."""
    done: list[None] = []
    simulate = Rescheduler.simulate

    def counted(self: Rescheduler, claims: Iterable[str], **options: Any) -> Plan:
        plan = simulate(self, claims, **options)
        done.append(None)
        return plan

    def start(most: int) -> Callable[[], bool]:
        done.clear()
        return lambda: len(done) >= most

    monkeypatch.setattr(Rescheduler, "simulate", counted)
    return lambda most: Drift(deadline=lambda: start(most))


def test_dis78_qrk12_the_stuck_nodes_of_one_pool_hold_up_no_other_pool(after: Callable[[int], Drift]) -> None:
    """Pools take turns, so that a pass that ends early reaches all; nodes that were stuck come last the next time."""
    cluster = Cluster(pool("default", ON_DEMAND), pool("other", ON_DEMAND))
    for number in range(5):
        cluster.add(f"stuck-{number}", pod(f"odd-{number}", "200"), since=NOW - 9 * HOUR)
    cluster.add("theirs", pod("web", "3"), of="other")
    cluster.add("ours", pod("api", "3"))
    assert names(cluster.decide()) == ["theirs", "ours"]
    first = cluster.decide(after(3))
    assert names(first) == ["theirs"]
    assert first.next_pass == NOW + MORE_AFTER
    assert first.blocked.keys() == {"stuck-0", "stuck-1"}
    remainder = {"under_command": frozenset({"theirs"})}
    tried = dict.fromkeys(first.blocked, NOW)
    second = cluster.decide(after(3), blocked_at=tried, **remainder)
    assert second.blocked.keys() == {"stuck-2", "stuck-3", "stuck-4"}
    third = cluster.decide(after(1), blocked_at=tried | dict.fromkeys(second.blocked, NOW), **remainder)
    assert names(third) == ["ours"]


def test_a_simulation_that_never_ends_in_time_comes_last_in_the_next_pass() -> None:
    cluster = Cluster()
    cluster.add("huge", *(pod(f"p-{number}", "1") for number in range(3)), since=NOW - 2 * HOUR)
    cluster.add("small", pod("web", "3"))
    slow = cluster.decide(Drift(deadline=expired_after_one_answer))
    assert (names(slow), slow.next_pass) == ([], NOW + MORE_AFTER)
    late = "the simulation of where its pods would go did not end in time"
    assert slow.blocked == {"huge": DisruptionBlocked("its node drifted (AMIDrift)", late)}
    assert names(cluster.decide(blocked_at={"huge": NOW})) == ["small", "huge"]


def expired_after_one_answer() -> Callable[[], bool]:
    """A deadline that passes while the first simulation runs."""
    answers = iter([False])
    return lambda: next(answers, True)


def test_dis13_dis14_what_protects_pods_holds_drift_unless_there_is_a_grace_period() -> None:
    hold = {"held_by": "pod default/db: PodDisruptionBudget db allows no eviction"}
    cluster = Cluster()
    cluster.add("a", pod("db", "3"), detail=hold)
    cluster.add("b", pod("db2", "3"), detail={**hold, "has_grace_period": True})
    cluster.add("c", held_by="pod kube-system/agent: it has karpenter.sh/do-not-disrupt")
    decision = cluster.decide()
    assert names(decision) == ["b"]
    assert {claim: str(why) for claim, why in decision.blocked.items()} == {
        "a": "its node drifted (AMIDrift), but pod default/db: PodDisruptionBudget db allows no eviction",
        "c": "its node drifted (AMIDrift), but pod kube-system/agent: it has karpenter.sh/do-not-disrupt",
    }


@pytest.mark.parametrize("change", [{"protected_by": "an annotation"}, {"leaving": True}, {"initialized": False}])
def test_dis10_dis11_nodes_that_are_no_candidates(change: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.add("a", **change)
    assert cluster.decide().commands == ()


def test_dis51_dis77_budgets_hold_drift_back() -> None:
    cluster = Cluster(pool("default", ON_DEMAND), pool("other", ON_DEMAND))
    for number in range(4):
        cluster.add(f"a-{number}")
        cluster.add(f"b-{number}", of="other")
    cluster.policies["default"] = replace(cluster.policies["default"], budgets=(Budget(nodes="1"),))
    cluster.policies["other"] = replace(cluster.policies["other"], budgets=(Budget(nodes="0", reasons=["Drifted"]),))
    decision = cluster.decide()
    assert names(decision) == ["a-0"]
    assert decision.next_pass == NOW + BLOCKED_AFTER, "a budget may open with its schedule"
    assert decision.eligible[Reason.DRIFTED] == 8
    assert cluster.decide(under_command=frozenset({"a-0"})).commands == ()


def test_a_pass_replaces_a_bounded_number_of_nodes_and_the_next_one_follows_soon() -> None:
    cluster = Cluster()
    for number in range(5):
        cluster.add(f"a-{number}")
    decision = cluster.decide(Drift(most=3))
    assert len(decision.commands) == 3
    assert decision.next_pass == NOW + MORE_AFTER


def test_two_commands_of_a_pass_do_not_use_the_same_room() -> None:
    cluster = Cluster()
    cluster.add("a", pod("p1", "3"), since=NOW - 3 * HOUR)
    cluster.add("b", pod("p2", "3"), since=NOW - 2 * HOUR)
    cluster.add("c", pod("kept", "1"), since=None)
    first, second = cluster.decide().commands
    assert {**first.destinations, **second.destinations}.keys() == {"c"}
    assert bool(first.destinations) != bool(second.destinations)
    assert bool(first.replacements) != bool(second.replacements)


def test_a_node_that_pods_of_another_command_move_to_stays_for_now() -> None:
    """Otherwise its new pods would move twice, and nothing would have planned where to."""
    cluster = Cluster()
    cluster.add("a", pod("p1", "1"), since=NOW - 3 * HOUR)
    cluster.add("b", pod("p2", "1"), since=NOW - 2 * HOUR)
    decision = cluster.decide()
    assert names(decision) == ["a"]
    assert the_only(decision).destinations.keys() == {"b"}
    assert decision.next_pass == NOW + MORE_AFTER


def test_pods_do_not_move_to_a_node_that_an_open_command_removes() -> None:
    cluster = Cluster()
    cluster.add("a", pod("p1", "1"))
    cluster.add("b", since=None)
    command = the_only(cluster.decide(under_command=frozenset({"b"})))
    assert command.destinations == {}
    assert len(command.replacements) == 1


def test_nodes_that_did_not_drift_and_situations_without_a_model_need_nothing() -> None:
    cluster = Cluster()
    cluster.add("a", since=None)
    for method in (Drift(), StaticDrift()):
        for decision in (cluster.decide(method), cluster.decide(method, model=None)):
            assert (decision.commands, decision.next_pass, decision.blocked) == ((), None, {})


# --- static pools ---


def static(replicas: int, count: int, *, drifted: int | None = None, **changed: Any) -> Cluster:
    cluster = Cluster()
    cluster.fixed(replicas, **changed)
    for number in range(count):
        fresh = drifted is not None and number >= drifted
        cluster.add(f"s-{number}", pod(f"p-{number}", "1"), of="fixed", since=None if fresh else NOW - HOUR)
    return cluster


def test_dis02_each_drifted_node_of_a_static_pool_gets_one_like_it() -> None:
    cluster = static(2, 2)
    assert cluster.decide(Drift()).commands == ()
    decision = cluster.decide(StaticDrift())
    assert names(decision) == ["s-0", "s-1"]
    for command in decision.commands:
        (bought,) = command.replacements
        assert (bought.pool, bought.pods, command.destinations) == ("fixed", (), {})
        assert bought.instance_types[0] == bought.offering.instance_type
        assert command.expected == pytest.approx(0.192 - bought.price)


@pytest.mark.parametrize(("limit", "expected"), [(3, 0), (4, 1), (5, 2), (9, 3)])
def test_dis02_within_the_limit_on_nodes(limit: int, expected: int) -> None:
    cluster = static(3, 3, limits={"nodes": str(limit)})
    decision = cluster.decide(StaticDrift())
    assert len(decision.commands) == expected
    assert len(decision.blocked) == 3 - expected


def test_dis02_replacements_that_are_on_their_way_count_against_the_limit() -> None:
    cluster = static(3, 3, limits={"nodes": "4"})
    under = frozenset({"s-0"})
    assert cluster.decide(StaticDrift(), under_command=under).commands == ()
    cluster.add("new", of="fixed", since=None, initialized=False)
    assert cluster.decide(StaticDrift(), under_command=under).commands == ()
    cluster.managed = [replace(item, leaving=item.claim == "s-0") for item in cluster.managed]
    assert cluster.decide(StaticDrift(), under_command=under).commands == (), "it still has its instance"
    cluster.managed = cluster.managed[1:]
    assert names(cluster.decide(StaticDrift())) == ["s-1"]


@pytest.mark.parametrize(("budget", "expected"), [("2", ["s-1"]), ("1", [])])
def test_dis02_a_node_waits_for_its_budgets_and_not_for_another_command(budget: str, expected: list[str]) -> None:
    cluster = static(3, 3)
    cluster.policies["fixed"] = replace(cluster.policies["fixed"], budgets=(Budget(nodes=budget),))
    cluster.add("new", of="fixed", since=None)
    assert names(cluster.decide(StaticDrift(), under_command=frozenset({"s-0"}))) == expected


def test_dis02_a_pool_that_is_scaled_down_replaces_nothing() -> None:
    decision = static(2, 3).decide(StaticDrift())
    assert decision.commands == ()
    assert "more nodes than replicas" in decision.blocked["s-0"].why


def test_dis02_a_pool_for_which_nothing_can_be_bought_says_so() -> None:
    decision = static(1, 1, types=[]).decide(StaticDrift())
    assert decision.commands == ()
    assert str(decision.blocked["s-0"]).startswith("its node drifted (AMIDrift), but no replacement can be bought: ")


def test_dis02_dis76_budgets_and_order_hold_for_static_pools_too() -> None:
    cluster = static(3, 3)
    cluster.policies["fixed"] = replace(cluster.policies["fixed"], budgets=(Budget(nodes="1"),))
    cluster.details["s-2"] = replace(cluster.details["s-2"], drifted_since=NOW - 5 * HOUR)
    assert names(cluster.decide(StaticDrift())) == ["s-2"]
    assert len(static(3, 3).decide(StaticDrift(most=2)).commands) == 2
