"""The record of a node's life by a real worker, and what `tenon history` answers once node and workflow are gone."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client

from cli.record_source import entries
from sandbox.cluster import Sandbox
from tenon.record.entries import DisruptionEntry, Entry, LaunchEntry, PlanEntry, RemovalEntry
from tests.e2e.conftest import MakePool, Run
from tests.e2e.lives import life_of
from tests.e2e.pools import NAMESPACE, SMALL, Pool
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

REASON = ("--reason", "its disk is broken", "--ticket", "OPS-7")
TOO_SLOW = "the store of earlier inputs is too slow"
"""Why a decision is recorded without its inputs while those of two others are being written."""
TRIES = 5
"""How many nodes at most are removed until the inputs of a decision are kept."""


async def answered(tenon: Run, *arguments: str, **environment: str | None) -> tuple[list[dict[str, Any]], str]:
    """What `tenon history -o json` answers, and what it says besides."""
    done = await asyncio.to_thread(tenon, "history", *arguments, "-o", "json", **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


async def emptied(pool: Pool, pod: str) -> str:
    """Have a node bought for a pod and removed as empty; the name of its NodeClaim."""
    await pool.pod(pod)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name = str(claim["metadata"]["name"])
    await pool.delete_pod(pod)
    await pool.gone(name)
    return name


async def decisions_about(record: str, sandbox: Sandbox, claim: str) -> list[DisruptionEntry]:
    """Wait until the record has decisions to remove a node; these. Those without inputs say that the store was busy."""
    decisions: list[DisruptionEntry] = []

    def read() -> list[DisruptionEntry]:
        return [
            entry
            for entry in entries(record, cluster=sandbox.cluster_name)
            if isinstance(entry, DisruptionEntry) and any(claim in command.claims for command in entry.commands)
        ]

    async def decided() -> bool:
        decisions[:] = await asyncio.to_thread(read)
        return bool(decisions)

    await until(decided)
    for decision in decisions:
        assert decision.inputs or decision.inputs_lacking == TOO_SLOW, decision.inputs_lacking
    return decisions


async def test_the_record_says_why_a_node_was_bought_and_who_removed_it_after_it_is_gone(
    make_pool: MakePool, tenon: Run, client: Client, sandbox: Sandbox, worker: Worker
) -> None:
    """A scale-up and a forced drain: plan, launch and removal, in the record and in `tenon history` by any name."""
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    pod = f"{NAMESPACE}/{(await pool.pod('one'))['metadata']['name']}"
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name, node = claim["metadata"]["name"], claim["status"]["nodeName"]
    drained = await asyncio.to_thread(tenon, "node", "force-drain", node, *REASON)
    assert drained.returncode == 0, drained.stderr
    await pool.gone(name)
    life = await life_of(client, sandbox, name)
    record = str(worker.log)  # the log on standard output has the record too

    def recorded() -> list[Entry]:
        return [entry for entry in entries(record, cluster=sandbox.cluster_name) if name in entry.model_dump_json()]

    async def removed() -> bool:
        return len(await asyncio.to_thread(recorded)) >= 3

    await until(removed)
    plan, launch, removal = sorted(recorded(), key=lambda entry: entry.at)  # two processes write the record
    assert isinstance(plan, PlanEntry)
    (purchase,) = plan.purchases
    assert (purchase.claim, purchase.pool, purchase.pods) == (name, pool.name, [pod])
    assert "the cheapest of" in purchase.why.choice
    assert plan.workflow == f"provisioner/{sandbox.cluster_name}"
    assert isinstance(launch, LaunchEntry)
    (instance,) = pool.instances(name)
    assert (launch.facts.instance, launch.facts.instance_type) == (instance["id"], instance["type"])
    assert isinstance(removal, RemovalEntry)
    assert (removal.reason, removal.detail) == ("ForceDrain", "its disk is broken, OPS-7")
    assert removal.actor == "sandbox-admin with tenon node"
    assert (removal.facts.node, removal.facts.instance, removal.pods) == (node, instance["id"], 1)
    assert removal.cost == life.cost > 0
    assert removal.timeline[-1].endswith("life ended")

    with_record = {"RECORD_SINKS": None, "TENON_RECORD": record}
    for subject in (node, name, instance["id"], pod):
        rows, _ = await answered(tenon, subject, **with_record)
        # A plan that is made while the node drains buys another node for the pod.
        kinds = [row["kind"] for row in rows if name in json.dumps(row)]
        assert kinds == ["plan", "launch", "removal"], f"the history of {subject}"

    async def is_known_to_temporal() -> bool:
        """Temporal alone knows the removal, under the same ID, once it lists that the workflow ended. Before, the
        command ends with 1.
        """
        done = await asyncio.to_thread(tenon, "history", node, "-o", "json", RECORD_SINKS=None, TENON_RECORD="")
        assert done.returncode in (0, 1), done.stderr
        assert "--record" in done.stderr
        return [row["id"] for row in json.loads(done.stdout)] == [removal.id]

    await until(is_known_to_temporal)
    shown = await asyncio.to_thread(tenon, "history", node, **with_record)
    (line,) = [line for line in shown.stdout.splitlines() if " removal " in line]
    assert "ForceDrain: its disk is broken, OPS-7" in line
    assert "sandbox-admin with tenon node" in line
    of_pod = await asyncio.to_thread(tenon, "history", pod, **with_record)
    assert f"{pod} is planned for a new node: {name}" in of_pod.stdout


async def test_a_command_is_recorded_with_the_end_of_its_node(
    make_pool: MakePool, tenon: Run, sandbox: Sandbox, worker: Worker
) -> None:
    """Emptiness removes a node: `tenon history` finds the command by the ID that the node's removal names.

    `tenon replay` makes the same decision again from its kept inputs.
    """
    began = datetime.now(UTC).isoformat()
    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    name = await emptied(pool, "one")
    record = str(worker.log)

    def removals() -> list[RemovalEntry]:
        all_removals = (
            entry for entry in entries(record, cluster=sandbox.cluster_name) if isinstance(entry, RemovalEntry)
        )
        return [entry for entry in all_removals if entry.facts.claim == name]

    async def removed() -> bool:
        return bool(await asyncio.to_thread(removals))

    await until(removed)
    (removal,) = removals()
    assert removal.reason == "Empty"
    command = removal.actor.removeprefix("command ")
    rows: list[dict[str, Any]] = []

    async def are_recorded() -> bool:
        rows[:], _ = await answered(tenon, command, RECORD_SINKS=None, TENON_RECORD=record)
        return len(rows) == 3

    await until(are_recorded)
    begin, end, last = sorted(rows, key=lambda row: str(row["kind"]))
    assert (begin["kind"], end["kind"], last["kind"]) == ("command", "command-end", "removal")
    assert [candidate["claim"] for candidate in begin["candidates"]] == end["accepted"] == [name]
    assert begin["workflow"] == f"disruption-command/{sandbox.cluster_name}/{command}"

    for number in range(TRIES):
        if any(decision.inputs for decision in await decisions_about(record, sandbox, name)):
            break
        name = await emptied(pool, f"again-{number}")
    else:
        pytest.fail(f"the inputs of {TRIES} decisions were not kept")
    done = await asyncio.to_thread(tenon, "replay", "--since", began, "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    replayed = json.loads(done.stdout)["disruption"]
    assert replayed["changed"] == 0
    assert {left_out["why"] for left_out in replayed["leftOut"]} <= {TOO_SLOW}
    assert replayed["decisions"] >= 1


async def test_nothing_is_known_of_a_name_that_never_was(tenon: Run) -> None:
    done = await asyncio.to_thread(tenon, "history", "never-was", "--since", "30d", RECORD_SINKS=None, TENON_RECORD="")
    assert done.returncode == 1
    assert "Nothing about never-was is known since" in done.stderr
    assert "No record is read" in done.stderr
    assert "Temporal keeps workflows for" in done.stderr
