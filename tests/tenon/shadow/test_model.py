"""The model cluster: each pod is in it once, Tenon's decisions change it, and what others cause does not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.shadow.cluster import begun
from tenon.shadow.disruptions import interrupt
from tenon.shadow.kube_scheduling import bind
from tenon.shadow.ledger import Ledger
from tenon.shadow.pods import WAITS
from tenon.shadow.saved import ShadowTotals, node_text, places_of, restored
from tests.tenon.shadow.models import BOOT, NOW, Around, Steps, live, node_pool


def with_pods(count: int, cpu: str = "1") -> Steps:
    steps = Steps()
    steps.feed(*(live(f"web-{number}", cpu=cpu) for number in range(count)))
    steps.pass_time(2)
    return steps


def test_pods_get_nodes_once_their_batch_is_complete() -> None:
    steps = Steps()
    steps.feed(live("web-0"))
    steps.pass_time(0)
    assert not steps.cluster.nodes
    steps.pass_time(2)
    (node,) = steps.cluster.nodes.values()
    assert set(node.pods) == {"uid-web-0"}
    assert steps.price == 0.085  # c5.large


def test_a_pod_that_ends_frees_its_room_for_the_next() -> None:
    steps = with_pods(1)
    steps.feed(live("web-1"), ended=["uid-web-0"])
    steps.pass_time(2)
    (node,) = steps.cluster.nodes.values()
    assert set(node.pods) == {"uid-web-1"}


def test_an_empty_node_leaves_and_costs_until_it_is_gone() -> None:
    steps = with_pods(1)
    steps.pass_time(BOOT)
    steps.feed(ended=["uid-web-0"])
    steps.pass_time(29)
    assert not steps.disrupt()
    steps.pass_time(2)
    (command,) = steps.disrupt()
    assert (command.reason, command.pods) == ("Empty", 0)
    assert steps.price > 0
    steps.pass_time(60)
    assert not steps.cluster.nodes
    assert steps.cluster.disturbance.by_reason == {"Empty": 1}


def test_consolidation_moves_pods_and_counts_them() -> None:
    steps = with_pods(12, cpu="1800m")
    steps.pass_time(BOOT)
    before = steps.price
    steps.feed(ended=[f"uid-web-{number}" for number in range(11)])
    steps.pass_time(60)
    for _ in range(5):
        steps.disrupt()
        steps.pass_time(600)
    assert steps.price < before / 5
    assert steps.cluster.disturbance.pods_moved == 1
    assert not steps.cluster.faults()


def test_kube_scheduler_puts_moved_pods_on_the_emptiest_node_which_need_not_be_the_planned_one() -> None:
    """Otherwise the model would fill its nodes better than a cluster does, and would find more to move afterwards."""
    steps = Steps()
    for name in ("web-0", "web-1"):  # a node for each
        steps.feed(live(name, cpu="1500m"))
        for _ in range(2):
            steps.pass_time(BOOT)
    steps.feed(live("small", cpu="200m"), ended=["uid-web-0"])
    bind(steps.cluster, steps.now)
    steps.pass_time(600)
    steps.disrupt()
    (waiting,) = steps.cluster.commands
    ((planned, (moved,)),) = waiting.command.destinations.items()
    steps.cluster.add_node(replace(steps.cluster.nodes[planned], name="emptiest", pods={}))
    steps.pass_time(15)
    (command,) = steps.disrupt()
    assert command.pods == 1
    assert steps.cluster.pods[moved.uid].node == "emptiest"
    assert not steps.cluster.faults()


def test_dis046_a_pod_that_comes_while_a_command_waits_keeps_its_node() -> None:
    steps = with_pods(12, cpu="1800m")
    steps.pass_time(BOOT)
    steps.feed(ended=[f"uid-web-{number}" for number in range(11)])
    steps.pass_time(60)
    assert {command.reason for command in steps.disrupt()} == {"Empty"}
    (waiting,) = steps.cluster.commands
    (claim,) = waiting.claims
    steps.pass_time(14)
    steps.feed(live("late", cpu="100m"))
    bind(steps.cluster, steps.now)
    assert steps.cluster.pods["uid-late"].node == claim
    assert not steps.disrupt(), "it waits for 15 seconds"
    steps.pass_time(1)
    assert not steps.disrupt()
    assert not steps.cluster.commands
    assert steps.cluster.disturbance.pods_moved == 0
    assert steps.cluster.nodes[claim].stays


def test_the_successor_of_a_pod_that_another_controller_evicted_takes_its_place() -> None:
    steps = with_pods(1)
    (name,) = steps.cluster.nodes
    quiet = steps.cluster.nodes[name].quiet
    bound = live("web-0", ends=True, node_leaves=True)
    bound = replace(bound, pod=replace(bound.pod, labels={**bound.pod.labels, labels.ZONE: "us-west-2a"}))
    steps.feed(bound)
    created = steps.now
    steps.pass_time(600)
    assert steps.feed(live("web-1").created_at(steps.now)) == 1
    assert set(steps.cluster.pods) == {"uid-web-1"}
    assert steps.cluster.pods["uid-web-1"].node == name
    assert steps.cluster.nodes[name].quiet == quiet
    assert steps.feed(ended=["uid-web-0"]) == 0
    steps.feed(live("web-1", cpu="500m").created_at(steps.now))
    assert steps.cluster.pods["uid-web-1"].live.pod.created < created, "or it would rest as a pod that was moved"


def test_the_place_of_a_pod_of_a_stateful_set_waits_for_its_successor() -> None:
    steps = Steps()
    steps.feed(live("db-0", owner="StatefulSet/db", kind="StatefulSet"))
    steps.pass_time(2)
    (name,) = steps.cluster.nodes
    steps.feed(live("db-0", owner="StatefulSet/db", kind="StatefulSet", ends=True, node_leaves=True))
    steps.feed(ended=["uid-db-0"])
    steps.pass_time(30)
    assert steps.feed(live("db-0b", owner="StatefulSet/db", kind="StatefulSet")) == 1
    assert steps.cluster.pods["uid-db-0b"].node == name


def test_a_pod_that_its_owner_deletes_has_no_successor() -> None:
    steps = with_pods(2)
    steps.feed(live("web-0", ends=True), live("web-2"), ended=["uid-web-0"])
    assert steps.cluster.pods["uid-web-2"].node == WAITS


def test_a_pod_outside_of_node_pools_needs_no_node() -> None:
    steps = Steps()
    steps.feed(live("web-0", outside=True))
    steps.pass_time(2)
    assert not steps.cluster.nodes


def test_a_pod_that_no_type_holds_is_tried_again_after_a_minute() -> None:
    steps = Steps()
    steps.feed(live("big", cpu="500"))
    steps.pass_time(2)
    assert "uid-big" in steps.cluster.unplaced
    planned_at = steps.cluster.planned_at
    steps.pass_time(30)
    assert steps.cluster.planned_at == planned_at
    steps.pass_time(31)
    assert steps.cluster.planned_at == steps.now


def test_an_expired_node_is_replaced() -> None:
    pool = node_pool()
    template = pool.spec.template.model_dump(by_alias=True, exclude_none=True)
    template["spec"]["expireAfter"] = "1h"
    spec = pool.spec.model_dump(by_alias=True, exclude_none=True) | {"template": template}
    expiring = type(pool).model_validate(pool.model_dump(by_alias=True, exclude_none=True) | {"spec": spec})
    steps = Steps(Around([expiring]))
    steps.feed(live("web-0"))
    steps.pass_time(2)
    (first,) = steps.cluster.nodes
    steps.pass_time(3600)
    steps.pass_time(2)
    assert steps.cluster.pods["uid-web-0"].node not in (first, WAITS)
    assert len(steps.cluster.nodes) == 2  # the old one drains
    steps.pass_time(600)
    assert first not in steps.cluster.nodes


def test_a_changed_template_drifts_the_nodes_of_the_model() -> None:
    steps = with_pods(1)
    (first,) = steps.cluster.nodes
    steps.pass_time(BOOT)
    pool = steps.around.pools[0]
    labelled = pool.spec.template.model_copy(
        update={"metadata": pool.spec.template.metadata.model_copy(update={"labels": {"team": "a"}})}
    )
    steps.around.pools = [pool.model_copy(update={"spec": pool.spec.model_copy(update={"template": labelled})})]
    (command,) = steps.disrupt()
    assert command.reason == "Drifted"
    assert steps.cluster.pods["uid-web-0"].node not in (first, WAITS)


def test_an_interruption_hits_a_node_of_the_same_offering_and_no_other() -> None:
    steps = with_pods(1)
    (node,) = steps.cluster.nodes.values()
    assert interrupt(steps.cluster, [node.offering], steps.now) == 0  # EC2 takes back spot instances only
    spot = (node.offering[0], node.offering[1], "spot")
    assert interrupt(steps.cluster, [spot], steps.now) == 0
    node.base.labels["karpenter.sh/capacity-type"] = "spot"  # type: ignore[index]
    assert interrupt(steps.cluster, [spot, spot], steps.now) == 1
    assert steps.cluster.pods["uid-web-0"].node == WAITS


def test_the_model_begins_as_the_cluster_is() -> None:
    steps = with_pods(2)
    node = steps.cluster.nodes.popitem()[1]
    node.pods.clear()
    cluster = begun([node], [live("web-0"), live("web-1"), live("out", outside=True)], {"uid-web-0": node.name}, NOW)
    assert set(node.pods) == {"uid-web-0"}
    assert [pod.live.uid for pod in cluster.waiting()] == ["uid-web-1"]
    assert not cluster.faults()


Step = st.tuples(st.sampled_from(["come", "end", "evict", "decide", "wait"]), st.integers(0, 10**6))


@settings(max_examples=40, deadline=None)
@given(st.lists(Step, max_size=25))
def test_each_pod_is_in_one_place_whatever_happens(script: list[tuple[str, int]]) -> None:
    steps, number = Steps(), 0
    present: dict[str, str] = {}
    for kind, choice in script:
        if kind == "come":
            pods = [live(f"web-{number + more}", cpu=f"{200 + choice % 1500}m") for more in range(1 + choice % 4)]
            number += len(pods)
            present |= {pod.uid: pod.pod.name for pod in pods}
            steps.feed(*pods)
        elif kind == "end" and present:
            uid = sorted(present)[choice % len(present)]
            del present[uid]
            steps.feed(ended=[uid])
        elif kind == "evict" and present:
            uid = sorted(present)[choice % len(present)]
            cpu = steps.cluster.pods[uid].live.pod.requests["cpu"]
            steps.feed(live(present.pop(uid), cpu=f"{cpu}m", ends=True, node_leaves=True))
            successor = live(f"web-{number}", cpu=f"{cpu}m")
            present[successor.uid], number = successor.pod.name, number + 1
            assert steps.feed(successor) == 1
            steps.feed(ended=[uid])
        elif kind == "decide":
            steps.disrupt()
        steps.pass_time(2 + (choice % 90 if kind == "wait" else 0))
        assert not steps.cluster.faults()
        assert set(steps.cluster.pods) == set(present)
    for node in steps.cluster.nodes.values():
        engine_node = node.seen_by_engine(steps.now)
        assert all(units <= engine_node.allocatable.get(name, 0) for name, units in engine_node.used.items())


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 30), st.integers(100, 3000))
def test_a_restart_goes_on_with_the_same_nodes_and_places(count: int, cpu: int) -> None:
    steps = with_pods(count, cpu=f"{cpu}m")
    steps.disrupt()
    totals = ShadowTotals(1, "", steps.cluster.bought, steps.cluster.disturbance, steps.cluster.disturbance, Ledger())
    texts = [node_text(node) for node in steps.cluster.nodes.values()]
    pods = [pod.live for pod in steps.cluster.pods.values()]
    steps.feed(live("waits"))
    pods.append(steps.cluster.pods["uid-waits"].live)
    for pod in steps.cluster.pods.values():
        pod.live = pod.live.created_at(steps.now)  # the model moved it
        if pod.node != WAITS:
            steps.cluster.nodes[pod.node].update(pod.live.pod)
    again = restored(texts, places_of(steps.cluster), pods, totals, steps.now)
    assert places_of(again) == places_of(steps.cluster)
    for name, node in steps.cluster.nodes.items():
        sides = [side.seen_by_engine(steps.now) for side in (again.nodes[name], node)]
        restarted, original = (replace(side, pods=sorted(side.pods, key=lambda pod: pod.key)) for side in sides)
        assert restarted == original
        assert again.nodes[name].quiet == node.quiet
    assert again.new_name() == f"shadow-{steps.cluster.bought + 1}"
