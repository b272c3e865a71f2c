"""Groups the pods without a node by what they wait for, so that a thousand pods with one cause are one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenon.kube.timestamps import format_instant
from tenon.money import per_hour
from tenon.scheduling.explanation.waiting import WaitsFor
from tenon.simulation.document import Document


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods that wait for the same."""

    waits_for: WaitsFor
    why: str
    """What they wait for, in a sentence without a period."""
    pods: Sequence[str]
    since: datetime | None
    """When the oldest of them was created; None if unknown."""


def pod_groups(document: Document, created: Mapping[str, datetime | None], starting: Iterable[str]) -> list[PodGroup]:
    """Return the groups of a plan, those that nothing is done for first, then the largest.

    Args:
        document: the plan, as `tenon simulate -o json` has it.
        created: by pod, when it was created.
        starting: the Nodes and NodeClaims of the plan that are not initialized yet.
    """
    starting_names = set(starting)
    causes: dict[tuple[WaitsFor, str], list[str]] = {}
    for entry in document["unschedulable"]:
        causes.setdefault((WaitsFor.NOTHING_FITS, entry["reason"]), []).append(entry["pod"])
    for entry in document["nodeClaims"]:
        causes.setdefault((WaitsFor.PURCHASE, _purchase(entry)), []).extend(entry["pods"])
    for entry in document["existingNodes"]:
        name = entry["name"]
        why = f"{name} was created for it and starts" if name in starting_names else f"it fits on {name}"
        causes.setdefault((WaitsFor.NODE, why), []).extend(entry["pods"])
    groups = [
        PodGroup(waits_for, why, sorted(pods), min(filter(None, map(created.get, pods)), default=None))
        for (waits_for, why), pods in causes.items()
    ]
    order = list(WaitsFor)
    return sorted(groups, key=lambda group: (order.index(group.waits_for), -len(group.pods), group.why))


def _purchase(entry: Mapping[str, Any]) -> str:
    offering = entry["offering"]
    where = f"{offering['capacityType']}, {offering['zone']}"
    return f"NodePool {entry['nodePool']} buys {offering['instanceType']} ({where}) at {per_hour(entry['price'])}"


def group_document(group: PodGroup) -> Document:
    """Return a group as JSON."""
    since = format_instant(group.since) if group.since is not None else ""
    return {"waitsFor": group.waits_for.value, "why": group.why, "pods": list(group.pods), "since": since}
