"""Which pods a drain takes, in which order, and when it stops asking."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.kube.pod_decode import pod_of
from tenon.kube.pod_disruption_budgets import PdbObject, pdb_record, selecting
from tenon.kube.protection import node_protection, pod_protection
from tenon.kube.records import PodRecord
from tenon.kube.structs import read
from tenon.kube.taints import Toleration
from tenon.node import drain, drain_blockers
from tenon.node.drain import Action, ActionKind

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def stamp(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def make(
    name: str = "a",
    owner: str = "ReplicaSet",
    phase: str = "Running",
    priority: str = "",
    tolerations: list[dict[str, str]] | None = None,
    deletion: float | None = None,
    grace: int | None = 30,
    annotations: dict[str, str] | None = None,
    started: float | None = -60,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "annotations": annotations or {}}
    metadata["ownerReferences"] = [{"kind": owner, "name": "o"}]
    if deletion is not None:
        granted = max(30 if grace is None else grace, int(deletion))  # a deletion never began in the future
        metadata |= {"deletionTimestamp": stamp(deletion), "deletionGracePeriodSeconds": granted}
    spec: dict[str, Any] = {"priorityClassName": priority, "tolerations": tolerations or []}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    status = {"phase": phase, "startTime": None if started is None else stamp(started)}
    return {"metadata": metadata, "spec": spec, "status": status}


TOLERATIONS: list[dict[str, str]] = [
    {"operator": "Exists"},
    {"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoExecute"},
    {"key": "other", "operator": "Equal", "value": "x"},
]
BODY = st.builds(
    make,
    name=st.integers(0, 10**6).map(str),
    owner=st.sampled_from(["ReplicaSet", "DaemonSet", "Node", "StatefulSet"]),
    phase=st.sampled_from(["Running", "Pending", "Succeeded", "Failed"]),
    priority=st.sampled_from(["", "high", "system-cluster-critical", "system-node-critical"]),
    tolerations=st.lists(st.sampled_from(TOLERATIONS), max_size=2),
    deletion=st.none() | st.integers(-200, 4000),
    grace=st.none() | st.integers(0, 4000),
    annotations=st.sampled_from([{}, {"karpenter.sh/do-not-disrupt": "true"}, {"karpenter.sh/do-not-disrupt": "5m"}]),
)
POD = BODY.map(pod_of)
PODS = st.lists(POD, max_size=12, unique_by=lambda pod: pod.uid)


@given(PODS)
def test_waves_partition_the_awaited_pods(node_pods: list[PodRecord]) -> None:
    """TRM-03: every awaited pod is in exactly one wave; critical after ordinary, daemons after the others."""
    pod_records = drain.remaining_pods(node_pods, NOW)
    assert len({pod.uid for pod in pod_records}) == len(pod_records)
    for number in range(4):
        assert drain.current_wave(pod_records) >= number
        wave = [pod for pod in pod_records if drain.wave(pod) == number]
        assert {(pod.critical, pod.daemon) for pod in wave} <= {(number >= 2, number % 2 == 1)}
        pod_records = [pod for pod in pod_records if pod not in wave]
    assert (pod_records, drain.current_wave(pod_records)) == ([], 4)


@given(PODS, st.none() | st.integers(-100, 4000), st.booleans())
def test_only_pods_that_can_leave_are_ever_waited_for(
    node_pods: list[PodRecord], force_in: int | None, force: bool
) -> None:
    """TRM-04: mirror, tolerating, ended and stuck pods never hold a node."""
    for pod in drain.remaining_pods(node_pods, NOW):
        assert not pod.mirror
        assert not pod.terminal
        assert Toleration(operator="Exists") not in pod.pod.tolerations
        assert pod.deletion is None or NOW - pod.deletion.end <= timedelta(minutes=1)


@given(PODS, st.integers(0, 4000))
def test_no_deleted_pod_outlasts_the_grace_period_of_the_node(node_pods: list[PodRecord], ago: int) -> None:
    """TRM-06: seconds after the instant, what was to end by then is left behind, and told of exactly once."""
    force_at = NOW - drain.UNRESPONSIVE_AFTER - timedelta(seconds=ago)
    waited = drain.remaining_pods(node_pods, NOW, force_at)
    pod_records = drain.left_behind(node_pods, NOW, force_at)
    for pod in waited:
        assert pod.deletion is None or pod.deletion.end > NOW - drain.UNRESPONSIVE_AFTER
    names = [pod.uid for pod in [*waited, *pod_records]]
    assert len(names) == len(set(names))
    assert all("should have ended by" in drain_blockers.overdue_termination(pod).why for pod in pod_records)


@given(PODS, st.integers(-100, 8000))
def test_a_drain_knows_when_it_must_look_again(node_pods: list[PodRecord], force_in: int) -> None:
    """TRM-06: looked at from now until that instant, no pod's own time to be deleted is passed over."""
    force_at = NOW + timedelta(seconds=force_in)
    waited = drain.remaining_pods(node_pods, NOW, force_at)
    again = drain.next_force(waited, force_at, NOW)
    assert again is not None
    assert again >= NOW
    for pod in waited:
        due = force_at - timedelta(seconds=pod.grace_seconds)
        assert pod.deleting or due <= NOW or due >= again
    assert drain.next_force(waited, None, NOW) is None


@given(POD, st.integers(-100, 8000), st.booleans())
def test_force_at_ends_every_pod_in_time(pod: PodRecord, force_in: int, turn: bool) -> None:
    """TRM-06: past (force_at - own grace) nothing is asked any more, and no deletion outlives force_at for long."""
    force_at = NOW + timedelta(seconds=force_in)
    action = drain.decide(pod, NOW, turn=turn, force_at=force_at, force=False)
    if pod.deletion is None and force_at - timedelta(seconds=pod.grace_seconds) <= NOW:
        assert action == Action(ActionKind.DELETE, grace_seconds=max(1, force_in))
    elif action.kind is ActionKind.DELETE:
        assert pod.deletion is not None
        assert pod.deletion.end > force_at
        assert action.grace_seconds is not None
        assert 1 <= action.grace_seconds < pod.deletion.grace_seconds


@given(POD, st.booleans())
def test_without_force_a_protected_or_waiting_pod_is_never_touched(pod: PodRecord, turn: bool) -> None:
    action = drain.decide(pod, NOW, turn=turn, force_at=None, force=False)
    assert action.kind is not ActionKind.DELETE
    if action.kind is ActionKind.EVICT:
        assert turn
        assert not pod.deleting
        assert not pod.do_not_disrupt


@given(BODY)
def test_force_always_leads_to_an_end(body: dict[str, Any]) -> None:
    """However a pod resists, a forced drain has it off the node within its rounds of a few seconds."""
    instant = NOW
    for _ in range(70):
        pod = pod_of(body)
        action = drain.decide(pod, instant, turn=False, force_at=None, force=True)
        if action == Action(ActionKind.DELETE, grace_seconds=0):
            return
        if action.kind is ActionKind.DELETE:
            assert action.grace_seconds is not None
            before = pod.deletion
            began = instant if before is None else before.end - timedelta(seconds=before.grace_seconds)
            end = (began + timedelta(seconds=action.grace_seconds) - NOW).total_seconds()
            body["metadata"] |= {"deletionTimestamp": stamp(end), "deletionGracePeriodSeconds": action.grace_seconds}
        instant += timedelta(seconds=1)
        if not drain.is_drainable(pod_of(body), instant):
            return
    pytest.fail("force never came to an end")


@pytest.mark.parametrize(("deletion", "drainable"), [(None, True), (30, True), (-59, True), (-60, True), (-61, False)])
def test_a_pod_is_stuck_a_minute_past_its_grace(deletion: float | None, drainable: bool) -> None:
    """TRM-04."""
    assert drain.is_drainable(pod_of(make(deletion=deletion)), NOW) is drainable


@pytest.mark.parametrize(
    ("owner", "phase", "deletion", "counts"),
    [
        ("ReplicaSet", "Running", None, True),
        ("ReplicaSet", "Pending", None, True),
        ("ReplicaSet", "Running", 10, False),
        ("StatefulSet", "Running", 10, True),
        ("DaemonSet", "Running", None, False),
        ("Node", "Running", None, False),
        ("Job", "Succeeded", None, False),
    ],
)
def test_which_pods_make_a_node_non_empty(owner: str, phase: str, deletion: float | None, counts: bool) -> None:
    """SCH-005: a terminating StatefulSet pod comes again, so it counts."""
    assert pod_of(make(owner=owner, phase=phase, deletion=deletion)).reschedulable is counts


@pytest.mark.parametrize(
    ("value", "started", "hold"),
    [
        ("true", -9999, "protects it"),
        ("false", 0, ""),
        ("True", 0, ""),
        ("10m", -599, "until 2026-03-01 12:00:01 UTC"),
        ("10m", -600, ""),
        ("1h30m", -3600, "until"),
        ("0s", 0, ""),
        ("-1h", 0, ""),
        ("soon", 0, ""),
        (None, 0, ""),
        ("10m", None, "from its start"),
    ],
)
def test_do_not_disrupt_protects_forever_or_for_a_duration(value: str | None, started: int | None, hold: str) -> None:
    """ANN-01."""
    annotations = {} if value is None else {"karpenter.sh/do-not-disrupt": value}
    answer = pod_protection(pod_of(make(annotations=annotations, started=started)), NOW)
    assert bool(answer) is bool(hold)
    assert hold in answer


@pytest.mark.parametrize("state", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"deletion": 30.0}], ids=str)
def test_do_not_disrupt_protects_no_pod_that_has_ended_or_is_ending(state: dict[str, Any]) -> None:
    pod = pod_of(make(annotations={"karpenter.sh/do-not-disrupt": "true"}, **state))
    assert pod_protection(pod, NOW) == ""


@pytest.mark.parametrize(
    ("annotations", "hold"),
    [
        ({"karpenter.sh/do-not-evict": "true"}, "do-not-evict"),
        ({"karpenter.sh/do-not-evict": "true", "karpenter.sh/do-not-disrupt": "false"}, "do-not-evict"),
        ({"karpenter.sh/do-not-evict": "yes"}, ""),
        ({"karpenter.sh/do-not-consolidate": "true"}, ""),
    ],
    ids=str,
)
def test_do_not_evict_protects_under_its_own_name(annotations: dict[str, str], hold: str) -> None:
    """ANN-11, V1B-13: as manifests from before v1 have it; do-not-consolidate is for nodes."""
    pod = pod_of(make(annotations=annotations))
    answer = pod_protection(pod, NOW)
    assert bool(answer) is bool(hold)
    assert hold in answer
    assert (pod.do_not_disrupt == "true") is bool(hold)


@pytest.mark.parametrize(
    ("claim", "node", "survivors", "protected_by"),
    [
        ({"karpenter.sh/do-not-consolidate": "true"}, {}, None, 'do-not-consolidate" annotation of its NodeClaim'),
        ({}, {"karpenter.sh/do-not-disrupt": "true"}, None, 'do-not-disrupt" annotation of its Node'),
        ({}, {"karpenter.sh/do-not-disrupt": "1h"}, None, ""),
        ({"karpenter.sh/do-not-consolidate": "false", "karpenter.sh/do-not-evict": "true"}, {}, None, ""),
        ({}, {}, 60, 'keep-until" annotation of its NodeClaim (until 2026-03-01 12:01:00 UTC)'),
        ({}, {}, 0, ""),
    ],
)
def test_dis11_an_annotation_protects_a_node_and_is_named(
    claim: dict[str, str], node: dict[str, str], survivors: int | None, protected_by: str
) -> None:
    """ANN-11, V1B-13."""
    keep_until = None if survivors is None else NOW + timedelta(seconds=survivors)
    result = node_protection(claim, node, keep_until, NOW)
    assert result.endswith(protected_by)
    assert bool(result) is bool(protected_by)


def test_force_begins_at_the_earliest_of_all_instants() -> None:
    assert drain.force_instant(NOW, None) is None
    assert drain.force_instant(NOW, 60) == NOW + timedelta(seconds=60)
    assert drain.force_instant(NOW, 60, NOW, None) == NOW
    assert drain.force_instant(NOW, None, None, NOW + timedelta(hours=1)) == NOW + timedelta(hours=1)


def test_only_budgets_of_the_pods_namespace_that_select_it_are_named() -> None:
    pod = make("web-0")
    pod["metadata"]["labels"] = {"app": "web"}

    def budget(name: str, selector: dict[str, Any] | None, namespace: str = "default") -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}

    every = [
        budget("none", None),
        budget("other", {"matchLabels": {"app": "db"}}),
        budget("far", {"matchLabels": {"app": "web"}}, namespace="prod"),
        budget("all", {}),
        budget("in", {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
        budget("not", {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
    ]
    budgets = [pdb_record(read(item, PdbObject)).value for item in every]
    assert [item.name for item in selecting(pod_of(pod).pod, budgets)] == ["default/all", "default/in"]


def test_trm06_a_pod_with_the_longest_possible_grace_is_deleted_at_once() -> None:
    """Its grace period is longer than any calendar. It gets the time that is left."""
    body = make(grace=2**63 - 1)
    force_at = NOW + timedelta(hours=1)
    assert drain.decide(pod_of(body), NOW, turn=False, force_at=force_at, force=False) == Action(
        ActionKind.DELETE, grace_seconds=3600
    )
    assert drain.next_force([pod_of(body)], force_at, NOW) == force_at
    assert drain_blockers.deleted_at(pod_of(body), force_at, NOW) is None
    body["metadata"] |= {"deletionTimestamp": stamp(7200), "deletionGracePeriodSeconds": 2**63 - 1}
    shortened = drain.decide(pod_of(body), NOW, turn=False, force_at=force_at, force=False)
    assert shortened.kind is ActionKind.DELETE


@pytest.mark.parametrize("force_at", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)])
def test_ann04_an_end_of_the_grace_period_at_the_edge_of_the_calendar_is_one(force_at: datetime) -> None:
    """A user may write any time on a NodeClaim, and Go writes the year 1 for none."""
    is_over = force_at < NOW
    fresh_pod, ending_pod = pod_of(make()), pod_of(make(deletion=10))
    action = drain.decide(fresh_pod, NOW, turn=True, force_at=force_at, force=False)
    assert action == (Action(ActionKind.DELETE, grace_seconds=1) if is_over else Action(ActionKind.EVICT))
    action = drain.decide(ending_pod, NOW, turn=True, force_at=force_at, force=False)
    assert action == (Action(ActionKind.DELETE, grace_seconds=1) if is_over else Action(ActionKind.AWAIT))
    assert drain.remaining_pods([fresh_pod, ending_pod], NOW, force_at) == [fresh_pod, ending_pod]
    again = drain.next_force([fresh_pod], force_at, NOW)
    assert again == (NOW if is_over else force_at - timedelta(seconds=30))
    assert drain_blockers.deleted_at(fresh_pod, force_at, NOW) == (None if is_over else again)
