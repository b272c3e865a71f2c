"""When to stop buying nodes for pods that do not get them: what counts, how long, and what ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.messages.provisioning import PurchasePause
from tenon.provisioning.purchase_pauses import (
    MAX_KEPT,
    MAX_NAMED,
    MAX_REFUSAL,
    group_of,
    is_open,
    kept,
    pause_sentence,
    supply_version,
    with_pods,
    with_refusal,
    with_unused_node,
    without_gone,
)
from tests.tenon.scheduling.builders import pod

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SUPPLY = supply_version([("default", "uid", 1)])


def after(*batches: int, at: Pod | None = None, supply: str = SUPPLY) -> PurchasePause:
    """The pause after unused nodes of these batches, one node each."""
    pause: PurchasePause | None = None
    for number, batch in enumerate(batches):
        pause = with_unused_node(pause, at or pod("a"), f"default-{number}", "default", batch, supply, NOW)
    assert pause is not None
    return pause


def test_sch018_the_first_unused_node_leads_to_no_pause() -> None:
    assert after(1).until is None
    assert not is_open(after(1), SUPPLY, NOW)


@pytest.mark.parametrize(("nodes", "minutes"), [(2, 1), (3, 2), (4, 4), (5, 8), (7, 32), (8, 60), (500, 60)])
def test_sch018_pauses_double_up_to_an_hour(nodes: int, minutes: int) -> None:
    pause = after(*range(1, nodes + 1))
    assert pause.until == NOW + timedelta(minutes=minutes)
    assert is_open(pause, SUPPLY, NOW)
    assert not is_open(pause, SUPPLY, pause.until)


def test_sch018_the_nodes_of_one_batch_lead_to_one_pause() -> None:
    """A Deployment of ten pods that repel each other buys ten nodes at once."""
    pause = after(*[7] * 10)
    assert (pause.nodes, pause.pauses, pause.until) == (10, 1, NOW + timedelta(minutes=1))


def test_sch018_a_node_of_an_earlier_batch_does_not_let_the_newest_batch_count_again() -> None:
    """Nodes become ready in any order."""
    assert after(1, 3, 2, 3).pauses == after(1, 3, 3).pauses == 1


def test_sch018_nodes_from_before_a_change_of_the_nodepools_do_not_count_after_it() -> None:
    """They were bought without the change, which may be the one that helps."""
    changed = supply_version([("default", "uid", 2)])
    again = with_unused_node(after(1, 2), pod("a"), "default-0", "default", 1, changed, NOW)
    assert (again.nodes, again.until) == (0, None)


def test_sch018_each_nodeclaim_counts_once() -> None:
    once = after(1)
    assert with_unused_node(once, pod("a"), "default-0", "default", 1, SUPPLY, NOW) == once
    assert without_gone(once, {"other"}).nodes == 1


def test_sch018_a_changed_nodepool_ends_the_pause_and_starts_the_count_again() -> None:
    changed = supply_version([("default", "uid", 2)])
    pause = after(1, 2, 3)
    assert not is_open(pause, changed, NOW)
    assert with_unused_node(pause, pod("a"), "default-9", "default", 9, changed, NOW).nodes == 1


def test_sch018_pods_that_differ_only_by_name_are_one_group() -> None:
    ordinal = {"app": "db", "statefulset.kubernetes.io/pod-name": "db-0", "apps.kubernetes.io/pod-index": "0"}
    first = replace(pod("db-0"), labels=ordinal, workload="StatefulSet/db")
    second = replace(pod("db-1"), labels={"app": "db"}, workload="StatefulSet/db")
    assert group_of(first) == group_of(second)
    bound = replace(second, labels={"app": "db", "topology.kubernetes.io/zone": "us-west-2a"})
    assert group_of(bound) == group_of(second), "its Node's labels, which the pod in its place does not have"
    assert group_of(pod("a")) == group_of(pod("b")), "also without a controller"


@pytest.mark.parametrize(
    "change",
    [
        {"requests": {"cpu": 1}},
        {"namespace": "other"},
        {"workload": "Job/a"},
        {"labels": {"app": "other"}},
        {"required_terms": (Requirements.from_labels({"zone": "a"}),)},
    ],
)
def test_sch018_a_changed_spec_is_another_group(change: dict[str, object]) -> None:
    assert group_of(replace(pod("a"), **change)) != group_of(pod("a"))  # type: ignore[arg-type]


@pytest.mark.integration
def test_sch018_every_process_gives_a_group_the_same_name() -> None:
    """The next leader reads the names that this process has written."""
    code = (
        "from dataclasses import replace;from tests.tenon.scheduling.builders import pod;"
        "from tenon.kube.requirements import Requirements;from tenon.provisioning.purchase_pauses import group_of;"
        "zones=Requirements.from_terms([{'key':'z','operator':'In','values':['a','b','c']}]);"
        "print(group_of(replace(pod('a'), required_terms=(zones,))))"
    )
    names = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(names) == 1


def test_sch018_what_a_workflow_keeps_of_a_pause_is_bounded() -> None:
    """kube-scheduler's sentence may name a thousand nodes, and a group may have a thousand pods."""
    pause = with_refusal(with_pods(after(1, 2), [f"shop/p-{n}" for n in range(1000)]), "0/5000 nodes: " * 1000)
    assert len(pause.refusal) <= MAX_REFUSAL + 1
    assert (len(pause.pods), pause.waiting) == (MAX_NAMED, 1000)
    assert with_refusal(pause, "").refusal == pause.refusal, "a pod that cannot be read says nothing"


def test_sch018_a_workflow_keeps_the_latest_pauses() -> None:
    many = [PurchasePause(group=f"{n:03}", until=NOW + timedelta(seconds=n)) for n in range(MAX_KEPT + 5)]
    assert [pause.group for pause in kept([PurchasePause(group="none"), *many])] == [pause.group for pause in many[5:]]


def test_sch018_the_sentence_says_how_many_nodes_what_kube_scheduler_says_and_until_when() -> None:
    text = pause_sentence(after(1, 2), "0/4 nodes are available: 1 Insufficient ephemeral-storage.")
    assert text == (
        "Tenon bought 2 nodes for this pod and pods like it, and kube-scheduler placed none of them there: "
        '"0/4 nodes are available: 1 Insufficient ephemeral-storage". Tenon buys no more nodes for them until '
        "2026-03-01 12:01:00 UTC, unless the pod, a NodePool or an EC2NodeClass changes"
    )
    assert "its reason is in the condition PodScheduled" in pause_sentence(after(1, 2), "")
