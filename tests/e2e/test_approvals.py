"""Commands that wait for a person: they outlive the worker and Temporal, and end as the person, or their node, says."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from cli.record_source import entries
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.record.entries import CommandEndEntry, CommandEntry
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import SMALL, Pool
from tests.e2e.worker import Worker
from tests.workflows.waiting import until


async def waiting(pool: Pool, tenon: Run) -> dict[str, str]:
    """The commands of the pool that wait for approval, by the name of their Node."""
    done = await asyncio.to_thread(tenon, "disruptions", "-o", "json")
    assert done.returncode == 0, done.stderr
    own_nodes = {node["metadata"]["name"] for node in await pool.nodes()}
    commands: list[dict[str, Any]] = json.loads(done.stdout)
    return {
        node: command["command"]
        for command in commands
        if command["waits"].startswith("waits for approval until ")
        for node in command["nodes"]
        if node in own_nodes
    }


def recorded(worker: Worker, sandbox: Sandbox, command: str) -> tuple[CommandEntry, CommandEndEntry | None]:
    """What the record says of a command: that it began, and how it ended."""
    of_command = [
        entry
        for entry in entries(str(worker.log), cluster=sandbox.cluster_name)
        if isinstance(entry, CommandEntry | CommandEndEntry) and entry.command == command
    ]
    begin = next(entry for entry in of_command if isinstance(entry, CommandEntry))
    return begin, next((entry for entry in of_command if isinstance(entry, CommandEndEntry)), None)


async def ended(worker: Worker, sandbox: Sandbox, command: str) -> CommandEndEntry:
    """Wait for the end of a command in the record."""
    ends: list[CommandEndEntry] = []

    async def has_ended() -> bool:
        _, end = await asyncio.to_thread(recorded, worker, sandbox, command)
        ends[:] = [end] if end is not None else []
        return bool(ends)

    await until(has_ended)
    return ends[0]


async def test_commands_wait_through_the_loss_of_worker_and_temporal_and_each_ends_as_it_is_answered(
    make_pool: MakePool, worker: Worker, sandbox: Sandbox, kube: Kube, tenon: Run
) -> None:
    """Three nodes drift. One command is approved, one is refused, and the node of the third is drained meanwhile."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await kube.patch(NODEPOOLS, pool.name, {"metadata": {"annotations": {labels.APPROVE: "Drifted"}}})
    await pool.deploy(3)
    await pool.running(3)
    claims = {claim["status"]["nodeName"]: claim["metadata"]["name"] for claim in await pool.settled(3)}
    await kube.patch(NODEPOOLS, pool.name, {"spec": {"template": {"metadata": {"labels": {"tier": "gold"}}}}})

    listed_commands: dict[str, str] = {}

    async def all_wait() -> bool:
        listed_commands.clear()
        listed_commands.update(await waiting(pool, tenon))
        return set(listed_commands) == set(claims)

    await until(all_wait)
    commands = dict(listed_commands)

    async def is_counted() -> bool:
        return worker.metric("tenon_disruption_approvals_waiting", nodepool=pool.name, reason="drifted") == 3

    await until(is_counted)
    assert await asyncio.to_thread(worker.crash) != 0
    await asyncio.to_thread(sandbox.stop_component, "temporal", kill=True)
    await asyncio.to_thread(sandbox.start_component, "temporal")
    await asyncio.to_thread(worker.start)
    await until(all_wait)
    assert listed_commands == commands, "nobody is asked twice"
    assert sorted(claim["metadata"]["name"] for claim in await pool.settled(3)) == sorted(claims.values())
    assert all("tier" not in node["metadata"]["labels"] for node in await pool.nodes())

    (approved_node, approved), (refused_node, refused), (drained_node, stale) = sorted(commands.items())
    done = await asyncio.to_thread(tenon, "approve", approved, "--by", "ann", "--reason", "seen in staging")
    assert done.returncode == 0, done.stderr
    done = await asyncio.to_thread(tenon, "refuse", refused, "--by", "bob", "--reason", "release in progress")
    assert done.returncode == 0, done.stderr
    done = await asyncio.to_thread(tenon, "node", "drain", drained_node, "--reason", "kernel")
    assert done.returncode == 0, done.stderr
    await pool.gone(claims[approved_node])
    await pool.gone(claims[drained_node])
    await pool.running(3)
    left_claims = {claim["metadata"]["name"] for claim in await pool.settled(3)}
    assert left_claims & set(claims.values()) == {claims[refused_node]}

    async def ends_are_listed() -> bool:
        """A command ends, and Temporal lists that, just after its node left."""
        shown = await asyncio.to_thread(tenon, "disruptions", "--all", "-o", "json")
        steps = {command["command"]: command["step"] for command in json.loads(shown.stdout)}
        ends = "undone: bob refused it: release in progress", "1 node left"
        return (steps.get(refused), steps.get(approved)) == ends

    await until(ends_are_listed)
    again = await asyncio.to_thread(tenon, "approve", stale, "--by", "ann", "--reason", "late")
    assert (again.returncode, again.stdout) == (2, "")
    assert stale in again.stderr

    for command, answer, by, reason in (
        (approved, "approved", "ann", "seen in staging"),
        (refused, "refused", "bob", "release in progress"),
        (stale, "stale", "", ""),
    ):
        end = await ended(worker, sandbox, command)
        begin, _ = await asyncio.to_thread(recorded, worker, sandbox, command)
        assert begin.approve_until == begin.at + timedelta(hours=24)
        approval = end.approval
        assert approval is not None
        assert (approval.answer, approval.by) == (answer, by)
        assert reason in approval.reason
        assert begin.at < approval.at <= end.at
        assert 0 < approval.seconds <= (end.at - begin.at).total_seconds()
        assert bool(end.accepted) == (answer == "approved")
        series = {"nodepool": pool.name, "reason": "drifted", "answer": answer}
        assert worker.metric("tenon_disruption_approval_wait_seconds_count", **series) == 1

    async def nothing_waits() -> bool:
        return worker.metric("tenon_disruption_approvals_waiting", nodepool=pool.name, reason="drifted") == 0

    await until(nothing_waits)
