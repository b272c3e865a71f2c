"""A command that replaces the world's node, and its steps."""

from __future__ import annotations

from typing import Any

from activities.disruption.commands import CommandActivities
from tenon.disruption.commands.pod_mark import pod_mark
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import DisruptionCandidate, DisruptionCommand, Replacement
from tests.activities.node.fake_kube import START
from tests.activities.node.world import FINALIZER, REF, World

ID = "underutilized-1"


def replacement(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "web-new",
            "annotations": {"tenon.sh/replacement-for": ID, **annotations},
            "finalizers": [FINALIZER],
        },
        "spec": {"nodeClassRef": {"name": "default"}},
    }


def command(*pods: str, **fields: Any) -> DisruptionCommand:
    """The command that replaces the world's node, on which it expects these pods."""
    candidate = DisruptionCandidate(
        claim=REF.name, uid=REF.uid, pool="web", since=START, pods=[pod_mark(f"uid-{name}") for name in pods]
    )
    value: dict[str, Any] = {"reason": "Underutilized", "decision": "replace", **fields}
    return DisruptionCommand(
        id=ID,
        candidates=[candidate],
        moves_pods=True,
        replacements=[Replacement(name="web-new", pool="web", body=replacement())],
        **value,
    )


def given(*pods: str, **fields: Any) -> DisruptInput:
    return DisruptInput(cluster=REF.cluster, command=command(*pods, **fields))


def steps(world: World) -> CommandActivities:
    return CommandActivities(world.kube, world.recorder, world.clock)


def annotations_of(world: World) -> dict[str, str]:
    annotations: dict[str, str] = world.claim["metadata"]["annotations"]
    return annotations
