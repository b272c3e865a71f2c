"""Reads a cluster once for a report: nodes with their pods, NodePools, PodDisruptionBudgets, commands, what blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import PDBS
from cli.fleet_view.reading import Notes, read_prices, watched_fleet
from cli.fleet_view.watched_fleet import WatchedFleet
from cli.fleet_view.workflow_control import ControlError, WorkflowControl
from tenon.kube.pod_disruption_budgets import PdbObject, PodDisruptionBudget, pdb_record
from tenon.report.live import LiveCluster

Say = Callable[[str], None]
"""Shows the user what is being read."""
EVENT_SECONDS = 10.0
"""Seconds to read Tenon's events, which say what keeps nodes and pods."""
MOST_BLOCKED = 30
"""How many blocked nodes are asked what blocks them."""
NO_CLUSTER = (
    "No cluster is named: --cluster NAME adds which nodes are blocked, what resolves that, and what commands wait for"
)


async def read_cluster(control: WorkflowControl | None, say: Say, *, ask_aws: bool) -> LiveCluster:
    """Return the cluster as it is now.

    Args:
        control: the workflows of its nodes; None if no cluster is named.
        say: shows the user what is being read.
        ask_aws: whether to wait for AWS's prices, which takes seconds.
    """
    notes = Notes()
    say("Reading nodes and pods ...")
    async with watched_fleet(notes) as watched:
        say("Reading prices ...")
        await read_prices(watched, notes, ask_aws=ask_aws)
        say("Reading what blocks nodes ...")
        remarks: list[str] = []
        budgets = await _budgets(remarks)
        blocked_texts = await _blocked_texts(watched, control, notes)
        with suppress(TimeoutError):
            async with asyncio.timeout(EVENT_SECONDS):
                await watched.events_were_read.wait()
        fleet = watched.fleet([*remarks, *notes.all()])
        return LiveCluster(
            name=control.cluster if control is not None else "",
            fleet=fleet,
            nodes=watched.live_nodes(fleet),
            pools=watched.pools,
            budgets=budgets,
            blocked_texts=blocked_texts,
        )


async def _budgets(remarks: list[str]) -> list[PodDisruptionBudget]:
    kube = await Kube.connect()
    try:
        objects = await kube.list(PDBS)
        return [pdb_record(msgspec.convert(body, PdbObject)).value for body in objects]
    except (ApiError, ValueError) as error:
        remarks.append(f"PodDisruptionBudgets cannot be read, so they count for nothing: {str(error).rstrip('.')}")
        return []
    finally:
        await kube.close()


async def _blocked_texts(watched: WatchedFleet, control: WorkflowControl | None, notes: Notes) -> dict[str, str]:
    """Return what blocks nodes, by NodeClaim. A note says so if Temporal does not answer."""
    if control is None:
        notes.temporal = NO_CLUSTER
        return {}
    texts: dict[str, str] = {}
    try:
        watched.blocked = await control.blocked()
        watched.commands = await control.commands()
        for claim in sorted(watched.blocked)[:MOST_BLOCKED]:
            texts[claim] = "\n".join(await control.remedies(claim))
    except ControlError as error:
        notes.temporal = f"From Kubernetes alone, so which nodes are blocked is not complete: {str(error).rstrip('.')}"
    return texts
