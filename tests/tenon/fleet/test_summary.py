"""Totals, pods without a node, and commands under way."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from tenon.fleet.document import Fleet, to_csv, to_document
from tenon.fleet.summary import (
    CommandSummary,
    FrozenPools,
    OpenRollout,
    PendingPod,
    PoolSchedule,
    commands_of_workflows,
    open_commands,
    reasons_of,
    totals,
)
from tests.tenon.fleet.cluster import NOW, a_row


def test_totals_are_sums_and_say_which_prices_are_missing() -> None:
    rows = [a_row("a", price=0.2), a_row("b", price=0.1, capacity_type="spot"), a_row("c", price=None, ready=False)]
    sums = totals(rows)
    assert (sums.nodes, sums.ready, sums.pods, sums.unpriced) == (3, 2, 3, 1)
    assert (sums.cpu_requests, sums.cpu, sums.cpu_share) == (3000, 12000, 0.25)
    assert sums.cost == pytest.approx(0.3)
    assert sums.monthly_cost == pytest.approx(219.0)
    assert (sums.spot, sums.spot_cost) == (1, 0.1)
    assert sums.spot_share == pytest.approx(1 / 3)


def test_nodes_that_tenon_did_not_launch_and_claims_without_an_instance_are_in_no_sum() -> None:
    own = [a_row("a", price=0.2), a_row("b", price=0.1, capacity_type="spot")]
    group, control_plane = a_row("g", claim="", instance="", price=0.4), a_row("s", claim="", instance="", price=None)
    rows = [*own, group, control_plane, a_row("c", node="", instance="", price=None)]
    sums, own_sums = totals(rows), totals(own)
    assert sums.left_out == "1 NodeClaim without an instance, 2 nodes that Tenon did not launch ($0.4000 an hour)"
    assert replace(sums, unlaunched=0, others=0, others_cost=0) == own_sums
    assert own_sums.left_out == ""


def test_a_node_whose_nodeclaim_is_gone_is_in_no_sum() -> None:
    """Its workflow, which `tenon node list` shows, ends a moment later. `tenon top` reads Kubernetes alone."""
    own = [a_row("a", price=0.2)]
    sums = totals([*own, a_row("b", price=None, ready=False, is_workflow_only=True)])
    assert sums.left_out == "1 node whose NodeClaim is gone"
    assert replace(sums, workflows_only=0) == totals(own)


def test_no_node_has_totals_too() -> None:
    assert (totals([]).cpu_share, totals([]).memory_share, totals([]).spot_share) == (0.0, 0.0, 0.0)


def test_pods_are_grouped_by_reason_and_the_most_frequent_comes_first() -> None:
    pods = [PendingPod(f"ns/{name}", NOW, why) for name, why in (("a", "no cpu"), ("c", "no gpu"), ("b", "no gpu"))]
    pods.append(PendingPod("ns/d", NOW, "no cpu", claim="pool-1"))
    assert reasons_of(pods) == [
        ("no gpu", ["ns/b", "ns/c"]),
        ("no cpu", ["ns/a"]),
        ("on its way to pool-1", ["ns/d"]),
    ]


def test_a_command_has_its_nodes_its_replacements_and_its_saving() -> None:
    rows = [
        a_row("a", command="c1", price=0.2),
        a_row("b", command="c1", price=0.2),
        a_row("new", replaces="c1", price=0.3),
        a_row("other"),
    ]
    (command,) = open_commands(rows, {"claim-a": "Underutilized"})
    saving = command.saving
    assert command == CommandSummary("c1", "Underutilized", ["a", "b"], ["new"], saving)
    assert saving == pytest.approx(0.1)


def test_a_saving_is_unknown_until_the_replacement_has_a_price() -> None:
    rows = [a_row("a", command="c1"), a_row("new", replaces="c1", price=None)]
    assert open_commands(rows, {})[0].saving is None


def test_workflows_say_what_commands_wait_for_and_claims_name_those_that_have_ended() -> None:
    of_claims = [
        CommandSummary("c1", "Underutilized", ["a"], ["new"], 0.1),
        CommandSummary("over", "Empty", ["b"], [], 0.3),
    ]
    of_workflows = [
        CommandSummary("c1", "Underutilized", ["claim-a"], [], 0.12, "1 of 2 replacements is ready", NOW),
        CommandSummary("asks", "Drifted", ["claim-c"], ["claim-new"], None, "waits for approval", NOW),
    ]
    names = {"claim-a": "a", "claim-c": "c"}
    assert commands_of_workflows(of_workflows, of_claims, names) == [
        CommandSummary("c1", "Underutilized", ["a"], ["new"], 0.12, "1 of 2 replacements is ready", NOW),
        CommandSummary("asks", "Drifted", ["c"], ["claim-new"], None, "waits for approval", NOW),
        CommandSummary("over", "Empty", ["b"], [], 0.3, "its nodes leave"),
    ]
    unpriced = [CommandSummary("c1", "Underutilized", ["claim-a"], [], None)]
    assert commands_of_workflows(unpriced, of_claims[:1], names)[0].saving == 0.1


def test_json_has_commands_freezes_and_rollouts() -> None:
    fleet = Fleet(
        [],
        [],
        [CommandSummary("c1", "Drifted", ["a"], [], None, "waits for approval", NOW)],
        NOW,
        frozen=[FrozenPools(["web"], "pause-web", "ann", "INC-1", None, "by ...")],
        rollouts=[OpenRollout("careful", "web", "Paused", "2/3", "v2", "ann paused it")],
        scheduled=[PoolSchedule("ci", "off", ["hours/nights"], NOW)],
    )
    document = json.loads(json.dumps(to_document(fleet, [])))
    assert (document["commands"][0]["waits"], document["commands"][0]["started"]) == (
        "waits for approval",
        "2026-01-02T00:00:00Z",
    )
    assert document["frozen"] == [
        {"nodePools": ["web"], "freeze": "pause-web", "requestedBy": "ann", "reason": "INC-1", "until": ""}
    ]
    assert document["scheduled"] == [
        {"nodePool": "ci", "holds": "off", "entries": ["hours/nights"], "until": "2026-01-02T00:00:00Z"}
    ]
    assert document["rollouts"] == [
        {
            "nodeRollout": "careful",
            "nodePool": "web",
            "phase": "Paused",
            "wave": "2/3",
            "target": "v2",
            "message": "ann paused it",
        }
    ]


def test_json_and_csv_have_the_same_nodes() -> None:
    rows = [a_row("a", why='pod "x", y'), a_row("b", price=None)]
    fleet = Fleet(rows, [PendingPod("ns/p", NOW, "no cpu")], [], NOW, ["prices are old"])
    document = json.loads(json.dumps(to_document(fleet, rows)))
    assert [node["node"] for node in document["nodes"]] == ["a", "b"]
    assert document["totals"]["pricePerHour"] == 0.1
    assert document["pendingPods"] == [
        {"pod": "ns/p", "since": "2026-01-02T00:00:00Z", "why": "no cpu", "nodeClaim": ""}
    ]
    assert document["notes"] == ["prices are old"]
    lines = list(csv.DictReader(io.StringIO(to_csv(rows, NOW))))
    assert [(line["why"], line["pricePerHour"]) for line in lines] == [('pod "x", y', "0.1"), (rows[1].why, "")]
    assert list(lines[0]) == list(document["nodes"][0])
    assert to_csv([], NOW).count("\n") == 1
