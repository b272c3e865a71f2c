"""When a node's workflow is poked: a table of levels."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tenon.apis import labels
from tenon.apis.nodeclaim import DISRUPTION_REASON, INITIALIZED, LAUNCHED, REBOOTING, REGISTERED
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord
from tenon.kube.taints import Taint
from tenon.kube.timestamps import format_instant
from tenon.messages.node import Poke, RebootRequest, Removal
from tenon.node.pokes import is_known_to_workflow, poke_for
from tenon.node.reboot_record import REBOOTING_FOR, operation_id

STARTUP = Taint("warming", "NoExecute")
EPHEMERAL = Taint("node.kubernetes.io/not-ready", "NoExecute")
OTHER = Taint("dedicated", "NoSchedule", "a")
LIVE = {"registered": True, "initialized": True, "node_ready": True}
REPAIRED = Removal(reason="unhealthy", detail="Ready is False for 30m", actor="controller node.health")
OWN = Removal(reason="expired", actor="the node's workflow", by_workflow=True)
JOINED = Poke(node_name="n", reason="joined")
READY = Poke(node_name="n", node_ready=True, reason="ready")

NOW = datetime(2026, 3, 1, tzinfo=UTC)
REBOOT = RebootRequest(operation_id=operation_id("uid", NOW), reason="a test", requested_at=NOW)
DISRUPTED = Taint(*labels.DISRUPTED_TAINT)
STRAY = Poke(node_name="n", disrupted=True, reason="disrupted")

LEVELS: list[tuple[str, dict[str, Any], Poke | None]] = [
    ("live, disruption taint", {"node_name": "n", **LIVE, "node_taints": [DISRUPTED]}, STRAY),
    ("live, disruption reason", {"node_name": "n", **LIVE, "disruption_reason": True}, STRAY),
    (
        "prepared by an open command, disruption taint and reason",
        {"node_name": "n", **LIVE, "node_taints": [DISRUPTED], "disruption_reason": True, "candidate": True},
        None,
    ),
    ("live, another taint", {"node_name": "n", **LIVE, "node_taints": [OTHER]}, None),
    ("starts, disruption taint", {"node_name": "n", "registered": True, "node_taints": [DISRUPTED]}, None),
    (
        "leaves, disruption taint",
        {"node_name": "n", **LIVE, "node_taints": [DISRUPTED], "node_deleting": True},
        Poke(node_name="n", node_deleting=True, reason="deleted"),
    ),
    (
        "reboots",
        {"node_name": "n", **LIVE, "disruption_reason": True, "reboot": REBOOT},
        Poke(node_name="n", reboot=REBOOT, reason="reboots"),
    ),
    (
        "has rebooted",
        {"node_name": "n", "registered": True, "node_ready": True, "reboot": REBOOT, "rebooted": True},
        Poke(node_name="n", reboot=REBOOT, rebooted=True, node_ready=True, reason="reboots"),
    ),
    ("launched, no Node", {}, None),
    ("launched, no Node in time", {"minutes_late": 3}, Poke(minutes_late=3, reason="no Node after 3 minutes")),
    ("late, and joined after all", {"node_name": "n", "minutes_late": 3}, JOINED),
    ("registered, its Node vanished", {"registered": True, "minutes_late": 3}, None),
    (
        "late, claim deleted",
        {"minutes_late": 3, "claim_deleting": True},
        Poke(claim_deleting=True, reason="deleted"),
    ),
    ("Node joined", {"node_name": "n"}, JOINED),
    ("Node joined and ready at once", {"node_name": "n", "node_ready": True}, JOINED),
    ("registered, not ready", {"node_name": "n", "registered": True}, None),
    ("registered, ready", {"node_name": "n", "registered": True, "node_ready": True}, READY),
    (
        "ready, startup taint there",
        {"node_name": "n", "registered": True, "node_ready": True, "node_taints": [STARTUP]},
        None,
    ),
    (
        "ready, startup taint with a value there",
        {"node_name": "n", "registered": True, "node_ready": True, "node_taints": [Taint("warming", "NoExecute", "x")]},
        None,
    ),
    (
        "ready, the startup taint's key with another effect",
        {"node_name": "n", "registered": True, "node_ready": True, "node_taints": [Taint("warming", "NoSchedule")]},
        READY,
    ),
    (
        "two Nodes with the claim's provider ID",
        {"node_name": "n", "several_nodes": True},
        Poke(reason="joined"),
    ),
    (
        "ready, ephemeral taint there",
        {"node_name": "n", "registered": True, "node_ready": True, "node_taints": [EPHEMERAL]},
        None,
    ),
    (
        "ready, readiness gate there",
        {
            "node_name": "n",
            "registered": True,
            "node_ready": True,
            "node_taints": [Taint(f"{labels.READINESS_TAINT_PREFIX}gpu", "NoSchedule")],
        },
        None,
    ),
    (
        "ready, the pool's own taint",
        {"node_name": "n", "registered": True, "node_ready": True, "node_taints": [OTHER]},
        READY,
    ),
    ("live", {"node_name": "n", "registered": True, "initialized": True, "node_ready": True}, None),
    ("live, fell ill", {"node_name": "n", "registered": True, "initialized": True}, None),
    (
        "claim deleted by Tenon",
        {"node_name": "n", **LIVE, "claim_deleting": True, "removals": (REPAIRED,)},
        Poke(claim_deleting=True, removals=(REPAIRED,), reason="deleted"),
    ),
    (
        "claim deleted by Tenon, and then its Node",
        {"node_name": "n", **LIVE, "claim_deleting": True, "node_deleting": True, "removals": (REPAIRED,)},
        Poke(claim_deleting=True, removals=(REPAIRED,), reason="deleted"),
    ),
    (
        "Node deleted, claim has a reason but stays",
        {"node_name": "n", **LIVE, "node_deleting": True, "removals": (REPAIRED,)},
        Poke(node_name="n", node_deleting=True, reason="deleted"),
    ),
    ("claim deleted before any Node", {"claim_deleting": True}, Poke(claim_deleting=True, reason="deleted")),
    (
        "claim of a live node deleted",
        {"node_name": "n", "registered": True, "initialized": True, "claim_deleting": True},
        Poke(claim_deleting=True, reason="deleted"),
    ),
    (
        "Node deleted, claim not",
        {"node_name": "n", "registered": True, "initialized": True, "node_deleting": True},
        Poke(node_name="n", node_deleting=True, reason="deleted"),
    ),
]


def claim_of(level: dict[str, Any]) -> ClaimRecord:
    """The NodeClaim at a level. It was launched, and waits for a startup taint."""

    def condition(type_: str, *, since: datetime = NOW, message: str = "") -> dict[str, str]:
        return {"type": type_, "status": "True", "lastTransitionTime": format_instant(since), "message": message}

    conditions = [condition(LAUNCHED, since=NOW - timedelta(minutes=level.get("minutes_late", 0)))]
    types_of_facts = {"registered": REGISTERED, "initialized": INITIALIZED, "disruption_reason": DISRUPTION_REASON}
    conditions += [condition(type_) for fact, type_ in types_of_facts.items() if level.get(fact)]
    annotations = {
        labels.DELETED_BECAUSE: json.dumps([removal.model_dump(mode="json") for removal in level.get("removals", ())]),
        labels.DISRUPTED_BY: "an open command" if level.get("candidate") else "",
    }
    if "reboot" in level:
        conditions.append(condition(REBOOTING, message=f"{REBOOTING_FOR}{REBOOT.reason}"))
        annotations[labels.REBOOT_PRE_BOOT_ID] = "before"
    deleted = {"deletionTimestamp": format_instant(NOW)} if level.get("claim_deleting") else {}
    return ClaimRecord.of(
        {
            "metadata": {"name": "c", "uid": "uid", "annotations": annotations, **deleted},
            "spec": {"startupTaints": [msgspec.to_builtins(STARTUP)]},
            "status": {"conditions": conditions},
        }
    )


def node_of(level: dict[str, Any]) -> NodeRecord | None:
    """The Node at a level; None if none has joined."""
    if "node_name" not in level:
        return None
    return NodeRecord(
        name=level["node_name"],
        uid="",
        resource_version="",
        provider_id="",
        labels={},
        annotations={},
        taints=tuple(level.get("node_taints", ())),
        capacity={},
        allocatable={},
        ready=level.get("node_ready", False),
        deleting=level.get("node_deleting", False),
        boot_id="after" if level.get("rebooted") else "before",
    )


@pytest.mark.parametrize(("level", "expected"), [row[1:] for row in LEVELS], ids=[row[0] for row in LEVELS])
def test_poke_of_a_level(level: dict[str, Any], expected: Poke | None) -> None:
    """LIF-03, LIF-04: each level has one poke or none, and having it twice changes nothing."""
    claim, node = claim_of(level), node_of(level)
    several_nodes = level.get("several_nodes", False)
    assert poke_for(claim, node, NOW, several_nodes=several_nodes) == expected
    assert poke_for(claim, node, NOW, several_nodes=several_nodes) == expected


@pytest.mark.parametrize(
    ("removals", "is_known"),
    [((OWN,), True), ((OWN, REPAIRED), False), ((REPAIRED,), False), ((), False)],
    ids=["its own deletion", "and another reason", "deleted by a controller", "deleted by a user"],
)
def test_a_workflow_knows_of_the_deletion_that_it_requested_itself(
    removals: tuple[Removal, ...], is_known: bool
) -> None:
    assert is_known_to_workflow(Poke(claim_deleting=True, removals=removals)) is is_known
