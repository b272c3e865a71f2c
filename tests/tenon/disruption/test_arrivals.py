"""How long consolidation lets pods rest that disruption commands moved."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tenon.apis.reasons import Reason
from tenon.disruption.commands.command_messages import arrivals_of, pods_sent
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Decision
from tenon.disruption.history.arrivals import (
    MAX_SIZE,
    REMEMBERED,
    REST,
    WITHIN,
    Arrival,
    arriving,
    read_arrivals,
    rest_until,
    times_moved,
    with_arrival,
    workload_mark,
)
from tenon.disruption.methods import METHODS, moving_methods
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.search.pods_elsewhere import PodsElsewhere
from tenon.disruption.situation import Situation
from tenon.kube.pod import Pod
from tenon.scheduling.deadline import never
from tests.tenon.disruption.clusters import NOW, Cluster, NodeSpec, PodSpec, PoolSpec, situation

MOVED = NOW - timedelta(minutes=30)
SMALL = PodSpec(cpu="100m", memory="128Mi")


def web(created: datetime, workload: str = "Deployment/web", name: str = "web-1") -> Pod:
    return Pod("shop", name, f"uid-{name}", {}, created=created.timestamp(), workload=workload)


def arrival(times: int = 1, at: datetime = MOVED, workload: str = "Deployment/web") -> Arrival:
    return Arrival(at, {workload_mark(web(at, workload)): times})


def test_wsh01_a_pod_created_soon_after_its_workload_was_moved_has_moved() -> None:
    assert times_moved(web(MOVED), [arrival()], NOW) == (1, MOVED)
    assert times_moved(web(MOVED + WITHIN), [arrival(2)], NOW) == (2, MOVED)


@pytest.mark.parametrize(
    "pod",
    [
        web(MOVED - timedelta(seconds=2)),
        web(MOVED + WITHIN + timedelta(seconds=2)),
        web(MOVED, "Deployment/other"),
        replace(web(MOVED), namespace="other"),
    ],
)
def test_other_pods_of_its_node_have_not_moved(pod: Pod) -> None:
    assert times_moved(pod, [arrival()], NOW) == (0, None)


def test_wsh01_a_pod_rests_for_an_hour_and_for_a_day_after_its_second_move() -> None:
    assert rest_until([web(MOVED)], [arrival()], NOW) == MOVED + REST
    assert rest_until([web(MOVED)], [arrival(2)], NOW) == MOVED + REMEMBERED
    assert rest_until([web(MOVED)], [arrival()], MOVED + REST) is None
    assert rest_until([web(MOVED)], [arrival(2)], MOVED + REMEMBERED) is None
    assert rest_until([web(MOVED)], [], NOW) is None


def test_what_a_command_moves_counts_its_earlier_moves() -> None:
    first, second = web(MOVED), web(MOVED, name="web-2")
    mark = workload_mark(first)
    assert arriving([first, second], {}) == {mark: 1}
    assert arriving([first, second], {second.key: 1}) == {mark: 2}


def test_the_annotation_keeps_what_is_of_the_last_day() -> None:
    text = "[]"
    for hours in range(30):
        text = with_arrival(text, NOW + timedelta(hours=hours), {"0a0b0c0d": 1}, {"0a0b0c0d": 3})
    arrivals = read_arrivals(text)
    assert [arrival.at for arrival in arrivals] == [NOW + timedelta(hours=hours) for hours in range(6, 30)]
    assert arrivals[-1] == Arrival(NOW + timedelta(hours=29), {"0a0b0c0d": 1}, {"0a0b0c0d": 3})
    later = with_arrival(text, NOW + timedelta(hours=60), {"0a0b0c0d": 2}, {})
    assert read_arrivals(later) == (Arrival(NOW + timedelta(hours=60), {"0a0b0c0d": 2}),)


def test_wsh01_a_node_that_gets_pods_every_five_minutes_forgets_none_of_them() -> None:
    """A large node got pods of more than 64 commands in a day, and the first of them moved for the third time."""
    text = "[]"
    for number in range(288):
        text = with_arrival(text, NOW + number * timedelta(minutes=5), {"0a0b0c0d": 2}, {"0a0b0c0d": 1})
    assert read_arrivals(text)[0].at == NOW


def test_the_annotation_stays_small() -> None:
    """The API server refuses an object of which the annotations have more than 256 KiB."""
    text = "[]"
    pods = {f"{number:08x}": 1 for number in range(250)}
    for number in range(100):
        text = with_arrival(text, NOW + number * timedelta(minutes=1), pods, pods)
    assert MAX_SIZE / 2 < len(text) <= MAX_SIZE
    assert read_arrivals(text)[-1].at == NOW + timedelta(minutes=99)


def test_pods_that_are_too_many_for_the_annotation_are_written_all_the_same() -> None:
    pods = {f"{number:08x}": 1 for number in range(2_000)}
    assert read_arrivals(with_arrival("[]", NOW, pods, pods)) == (Arrival(NOW, pods, pods),)


@pytest.mark.parametrize("text", ["", "{}", "1", "[1]", '[["x", {}]]', '[["2026-11-21T12:00:00Z", 1]]', "[[]]"])
def test_an_annotation_that_cannot_be_read_is_no_arrival(text: str) -> None:
    assert read_arrivals(text) == ()
    assert json.loads(with_arrival(text, NOW, {"0a0b0c0d": 1}, {})) == [["2026-11-21T12:00:00Z", {"0a0b0c0d": 1}, {}]]


def decided(situation: Situation) -> Decision:
    decision = decide(situation, [Consolidation()])
    for error in decision.failed.values():
        raise error
    return decision


def resting(cluster: Cluster, times: int, at: datetime = MOVED) -> Situation:
    """The cluster after a command moved its pods where they are now."""
    value = situation(cluster)
    model = value.model
    assert model is not None
    details = {
        claim: replace(detail, pods=tuple(replace(pod, created=at.timestamp()) for pod in detail.pods))
        for claim, detail in model.details.items()
    }
    before = {pod.key: times - 1 for detail in details.values() for pod in detail.pods}
    nodes = [replace(node, arrivals=(Arrival(at, arriving(details[node.claim].pods, before)),)) for node in value.nodes]
    return replace(value, nodes=nodes, model=replace(model, details=details))


@pytest.mark.parametrize(("times", "rest"), [(1, REST), (2, REMEMBERED)])
def test_wsh01_a_node_whose_pods_rest_is_neither_replaced_nor_deleted(times: int, rest: timedelta) -> None:
    nodes = {"a": NodeSpec(type="m5.4xlarge", pods=[SMALL]), "b": NodeSpec(type="c5.large", pods=[SMALL])}
    decision = decided(resting(Cluster(nodes=nodes), times))
    assert (decision.commands, decision.next_pass) == ((), MOVED + rest)
    why = "disruption commands moved pods of it not long ago, so consolidation lets them rest"
    assert decision.unconsolidatable == {"a": why, "b": why}
    assert len(decided(replace(resting(Cluster(nodes=nodes), times), now=MOVED + rest)).commands) >= 1


def in_shortage(situation: Situation, *claims: str) -> Situation:
    """The situation in which these nodes were bought in a capacity shortage."""
    nodes = [replace(node, bought_in_shortage=node.claim in claims) for node in situation.nodes]
    return replace(situation, nodes=nodes)


def test_wsh01_a_node_bought_in_a_shortage_is_replaced_although_its_pods_rest() -> None:
    """An hour of it may cost more than the move. The rest of other nodes goes on."""
    situation = resting(Cluster(nodes={"a": NodeSpec(type="m5.4xlarge", pods=[SMALL])}), 1)
    assert decided(situation).commands == ()
    (command,) = decided(in_shortage(situation, "a")).commands
    assert [candidate.node.claim for candidate in command.candidates] == ["a"]
    assert len(command.replacements) == 1


def test_wsh01_no_pods_move_to_a_node_that_was_bought_in_a_shortage() -> None:
    """Their rest, and their being there, would keep it. Its own pods leave it."""
    nodes = {"large": NodeSpec(type="m5.4xlarge", pods=[SMALL]), "small": NodeSpec(type="c5.large", pods=[SMALL])}
    value = situation(Cluster(pools={"default": PoolSpec()}, nodes=nodes))
    (command,) = decided(in_shortage(value, "large")).commands
    assert ([candidate.node.claim for candidate in command.candidates], list(command.destinations)) == (
        ["large"],
        ["small"],
    )
    only_small = replace_only(value, "small")
    assert list(decided(only_small).commands[0].destinations) == ["large"]
    assert decided(in_shortage(only_small, "large")).commands == ()


def replace_only(situation: Situation, claim: str) -> Situation:
    """The situation in which only this node may be a candidate, because a pod protects each of the others."""
    assert situation.model is not None
    details = {
        name: detail if name == claim else replace(detail, held_by="pod shop/web-1 has do-not-disrupt")
        for name, detail in situation.model.details.items()
    }
    return replace(situation, model=replace(situation.model, details=details))


def test_wsh01_drift_and_emptiness_do_not_wait_for_pods_that_rest() -> None:
    nodes = {
        "a": NodeSpec(type="m5.4xlarge", pods=[SMALL], drifted="AMIDrift", drifted_for="1h"),
        "b": NodeSpec(type="c5.large"),
        "c": NodeSpec(type="c5.large", pods=[SMALL]),
    }
    situation = resting(Cluster(nodes=nodes), 2)
    gone_pod = Arrival(MOVED, {"0a0b0c0d": 2})
    situation = replace(
        situation, nodes=[replace(node, arrivals=(*node.arrivals, gone_pod)) for node in situation.nodes]
    )
    result = decide(situation, METHODS)
    assert [[candidate.node.claim for candidate in command.candidates] for command in result.commands] == [["b"]]
    result = decide(situation, moving_methods(never))
    (command,) = result.commands
    assert (command.reason, [candidate.node.claim for candidate in command.candidates]) == (Reason.DRIFTED, ["a"])


def test_wsh01_other_pods_may_move_to_a_node_whose_pods_rest() -> None:
    nodes = {"a": NodeSpec(type="c5.xlarge", pods=[SMALL]), "b": NodeSpec(type="c5.large", pods=[SMALL])}
    situation = resting(Cluster(pools={"default": PoolSpec()}, nodes=nodes), 1)
    awake = [replace(node, arrivals=()) if node.claim == "a" else node for node in situation.nodes]
    (command,) = decided(replace(situation, nodes=awake)).commands
    assert [candidate.node.claim for candidate in command.candidates] == ["a"]
    assert list(command.destinations) == ["b"]


def test_a_command_says_where_its_pods_go() -> None:
    nodes = {
        "a": NodeSpec(type="m5.4xlarge", pods=[SMALL, PodSpec(cpu="1")]),
        "b": NodeSpec(type="c5.large", pods=[SMALL]),
    }
    value = situation(Cluster(nodes=nodes))
    assert value.model is not None
    (command,) = decided(value).commands
    names = [f"new-{n}" for n in range(len(command.replacements))]
    result = arrivals_of(command, value.model, names, NOW)
    moved = [pod for pods in command.destinations.values() for pod in pods]
    moved += [pod for claim in command.replacements for pod in claim.pods]
    assert {mark for times in result.values() for mark in times} == {workload_mark(pod) for pod in moved}
    assert {count for times in result.values() for count in times.values()} == {1}
    requests = pods_sent(command, value.model, names)
    assert requests.keys() == result.keys()
    assert sum(count for pods in requests.values() for count in pods.values()) == len(moved)


def moved_to(*names: str, requests: int, at: datetime = MOVED, times: int = 1) -> Situation:
    """Node ``a`` was sent pods of `web`; the other nodes have one pod each of it, created when the command ran."""
    nodes = {name: NodeSpec(type="c5.large", pods=[SMALL] if name in names else []) for name in ("a", "b", "c")}
    value = situation(Cluster(nodes=nodes))
    model = value.model
    assert model is not None
    details = {
        claim: replace(
            detail,
            pods=tuple(
                replace(pod, namespace="shop", workload="Deployment/web", created=at.timestamp()) for pod in detail.pods
            ),
        )
        for claim, detail in model.details.items()
    }
    mark = workload_mark(web(MOVED))
    arrival = Arrival(MOVED, {mark: times}, {mark: requests} if requests else {})
    changed_nodes = [replace(node, arrivals=(arrival,)) if node.claim == "a" else node for node in value.nodes]
    return replace(value, nodes=changed_nodes, model=replace(model, details=details))


def arrivals_in(situation: Situation, pods_elsewhere: PodsElsewhere | None = None) -> dict[str, tuple[Arrival, ...]]:
    """By NodeClaim. ``pods_elsewhere``: what earlier passes found."""
    assert situation.model is not None
    managed_nodes = (pods_elsewhere or PodsElsewhere()).added_to(situation.nodes, situation.model.details, NOW)
    return {node.claim: node.arrivals for node in managed_nodes}


def test_wsh01_a_pod_that_kube_scheduler_bound_elsewhere_has_moved_too() -> None:
    """The command sent two pods to one node. One came there, the other is on another node."""
    situation = moved_to("a", "b", requests=2, times=2)
    result = arrivals_in(situation)
    assert [item.times for item in result["b"]] == [{workload_mark(web(MOVED)): 2}]
    assert situation.model is not None
    assert rest_until(situation.model.details["b"].pods, result["b"], NOW) == MOVED + REMEMBERED


@pytest.mark.parametrize(
    ("situation", "why"),
    [
        (moved_to("a", "b", requests=1), "all that were sent came"),
        (moved_to("b", requests=0), "no pod was sent"),
        (moved_to("b", requests=1, at=MOVED - timedelta(hours=1)), "the pod is older"),
    ],
)
def test_other_pods_did_not_move(situation: Situation, why: str) -> None:
    assert (arrivals_in(situation)["b"], why) == ((), why)


def test_no_more_pods_count_as_moved_than_were_sent() -> None:
    result = arrivals_in(moved_to("b", "c", requests=1))
    assert sorted(len(result[name]) for name in ("b", "c")) == [0, 1]


def test_wsh01_a_pod_elsewhere_is_known_after_its_planned_node_is_gone() -> None:
    """The planned node stayed empty and left. An hour later the pod was moved as if it had never moved."""
    pods_elsewhere = PodsElsewhere()
    situation = moved_to("b", requests=1, times=2)
    before = arrivals_in(situation, pods_elsewhere)["b"]
    assert [item.times for item in before] == [{workload_mark(web(MOVED)): 2}]
    changed_situation = replace(situation, nodes=[node for node in situation.nodes if node.claim != "a"])
    assert arrivals_in(changed_situation, pods_elsewhere)["b"] == before
    assert arrivals_in(changed_situation)["b"] == ()


def test_wsh01_a_pod_elsewhere_counts_once() -> None:
    pods_elsewhere = PodsElsewhere()
    situation = moved_to("b", "c", requests=1)
    first, second = arrivals_in(situation, pods_elsewhere), arrivals_in(situation, pods_elsewhere)
    assert first == second


def test_wsh01_a_pod_that_a_deployment_adds_later_is_not_the_one_that_moved() -> None:
    """The pod that moved went to another node. Ten minutes later the Deployment grew on the planned node."""
    situation = moved_to("a", "b", requests=1)
    model = situation.model
    assert model is not None
    (added,) = model.details["a"].pods
    later = replace(added, created=(MOVED + timedelta(minutes=10)).timestamp())
    details = {**model.details, "a": replace(model.details["a"], pods=(later,))}
    result = arrivals_in(replace(situation, model=replace(model, details=details)))
    assert [item.times for item in result["b"]] == [{workload_mark(web(MOVED)): 1}]
