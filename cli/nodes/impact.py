"""What a command would do to nodes and their pods, before it does it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import PDBS
from cli.fleet_view.node_prices import region_of, table_prices
from cli.fleet_view.reading import Notes, watched_fleet
from tenon.disruption.rules.held_pods import why_held
from tenon.fleet.choice import Choice, chosen_rows
from tenon.fleet.rows import NodeRow
from tenon.kube.pod_disruption_budgets import PdbObject, PodDisruptionBudget, pdb_record, selecting
from tenon.kube.records import PodRecord
from tenon.money import per_hour
from tenon.sentences import counted

MAX_PROTECTED = 5
"""Maximum number of protected pods of a node that are named."""


@dataclass(frozen=True, slots=True)
class Impact:
    """A node, the pods that would have to move, and why some of them may not be evicted now."""

    row: NodeRow
    pods: Sequence[str]
    protected: Mapping[str, str]


async def impacts_of(choice: Choice) -> list[Impact]:
    """Return what the nodes of a command have.

    Raises:
        FilterError: the command names no nodes, or unknown ones.
        FleetError, ApiError, ConfigError: the cluster cannot be read.
    """
    notes = Notes()
    async with watched_fleet(notes) as watched:
        watched.prices = table_prices(region_of(watched.region)).prices
        rows = chosen_rows(choice, watched.fleet().rows)
        pods = {row.claim: watched.pods_on(row.node) for row in rows}
    for note in notes.of_kubernetes():
        print(f"{note}.", file=sys.stderr)
    budgets = await _budgets() if any(pods.values()) else []
    now = utc_now()
    return [_impact(row, pods[row.claim], budgets, now) for row in rows]


def _impact(row: NodeRow, pods: Sequence[PodRecord], budgets: Sequence[PodDisruptionBudget], now: datetime) -> Impact:
    moving = sorted((pod for pod in pods if pod.reschedulable and not pod.stays), key=lambda pod: pod.key)
    reasons = {pod.key: why_held(pod, selecting(pod.pod, budgets), now, after_surge=True) for pod in moving}
    return Impact(row, [pod.key for pod in moving], {key: why for key, why in reasons.items() if why})


async def _budgets() -> list[PodDisruptionBudget]:
    """The PodDisruptionBudgets of the cluster. A person may drain nodes without the right to read them."""
    kube = await Kube.connect()
    try:
        return [pdb_record(msgspec.convert(body, PdbObject, strict=False)).value for body in await kube.list(PDBS)]
    except ApiError as error:
        print(f"PodDisruptionBudgets are not considered, because they cannot be read: {error}", file=sys.stderr)
        return []
    finally:
        await kube.close()


def describe(verb: str, impacts: Sequence[Impact], protected_fate: str) -> list[str]:
    """Return the lines of a dry run: which nodes, which pods, and what protects them.

    Args:
        verb: what the command does, such as ``drain``.
        impacts: the nodes.
        protected_fate: what happens to pods that may not be evicted now.
    """
    lines = [f"{sentence(verb, impacts, protected_fate)}:"]
    for impact in impacts:
        row = impact.row
        price = per_hour(row.price) if row.price is not None else ""
        facts = [fact for fact in (row.claim, row.instance_type, price, row.stage.value) if fact]
        lines.append(f"  {row.name} ({', '.join(facts)}): {counted(len(impact.pods), 'pod')}")
        protected = list(impact.protected.items())
        lines += [f"    {key}: {why}" for key, why in protected[:MAX_PROTECTED]]
        if len(protected) > MAX_PROTECTED:
            lines.append(f"    and {counted(len(protected) - MAX_PROTECTED, 'more protected pod')}")
    return lines


def sentence(verb: str, impacts: Sequence[Impact], protected_fate: str) -> str:
    """Return what a command does, with figures: 'drain 2 nodes with 9 pods, 1 of them protected: ...'."""
    pods = sum(len(impact.pods) for impact in impacts)
    protected = sum(len(impact.protected) for impact in impacts)
    price = sum(impact.row.price or 0.0 for impact in impacts)
    text = f"{verb} {counted(len(impacts), 'node')} ({per_hour(price)}) with {counted(pods, 'pod')}"
    if not protected:
        return text
    return f"{text}, {protected} of them protected ({protected_fate})"
