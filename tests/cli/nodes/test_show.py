"""``tenon node show`` against a real Temporal server: what a person reads of a node, also after its end."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from temporalio.testing import WorkflowEnvironment

from tenon.messages.node import Operator
from tests.cli.nodes.blocked_node import NAME, Tenon, blocked, listed
from tests.workflows.guarded_node import BUDGET, Guarded, state_of
from tests.workflows.node_workflow import newest
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

pytestmark = pytest.mark.integration


@pytest.mark.usefixtures("world")
async def test_show_says_what_blocks_a_node_and_what_resolves_it(tenon: Tenon, cluster: str) -> None:
    """TRM-05, TRM-06: pod and budget by name, the reason to leave, the instant of force, and the commands."""
    shown = await asyncio.to_thread(tenon, "show", NAME, "--cluster", cluster)
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert BUDGET in text
    assert "tenon node force-drain default-x1 deletes the pods at once, whatever protects them" in text
    assert "kubectl edit poddisruptionbudget -n default web" in text
    assert "Drain (an operator, by a Temporal signal)" in text
    assert "All pods are deleted, whatever protects them, by 20" in text
    assert "Next attempt at 20" in text


async def test_show_and_list_show_free_text_as_it_is(temporal: WorkflowEnvironment, tenon: Tenon, cluster: str) -> None:
    async with listed(temporal, cluster, Guarded(grace=timedelta(days=2))) as handle:
        await handle.signal(NodeClaimWorkflow.drain, Operator(by="ann", reason="asked by <bob> for *x*\x1b[2K"))
        await until(lambda: blocked(temporal.client, cluster))
        shown = await asyncio.to_thread(tenon, "show", NAME, "--cluster", cluster)
        table = await asyncio.to_thread(tenon, "list", "--cluster", cluster)
    assert "asked by <bob> for *x*[2K" in shown.stdout
    assert "\x1b" not in shown.stdout + table.stdout


async def test_a_question_that_temporal_refuses_is_a_sentence(tenon: Tenon) -> None:
    answer = await asyncio.to_thread(tenon, "list", "--cluster", "a'b")
    assert (answer.exit_code, answer.stdout) == (2, "")
    kubernetes, temporal = answer.stderr.splitlines()
    assert kubernetes.startswith("The Kubernetes client cannot be configured: ")
    assert temporal.startswith("Temporal refused: ")


async def test_a_node_that_is_gone_is_shown_by_the_name_of_its_node_and_its_instance(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    """Its NodeClaim and Node do not exist any more, and these are the names in alerts and bills."""
    async with listed(temporal, cluster, Guarded()) as handle:
        state = await state_of(handle)
        assert state.instance is not None
        await handle.signal(NodeClaimWorkflow.force_drain)
        await newest(temporal.client, cluster).result()
        query = (
            f"{names.CLUSTER.name} = '{cluster}' AND {names.NODE.name} = '{state.node_name}' AND "
            f"{names.INSTANCE.name} = '{state.instance.id}' AND {names.REASON.name} = 'ForceDrain'"
        )

        async def found() -> bool:
            return [run.id async for run in temporal.client.list_workflows(query)] != []

        await until(found)
        for name in (state.node_name, state.instance.id):
            shown = await asyncio.to_thread(tenon, "show", name, "--cluster", cluster)
            assert shown.exit_code == 0, shown.output
            assert f"NodeClaim {NAME}" in shown.output
        for name in ("never-existed", "it's", "a' OR 'a' = 'a"):
            unknown = await asyncio.to_thread(tenon, "show", name, "--cluster", cluster)
            assert unknown.exit_code == 2
            assert "No workflow" in unknown.output


def test_an_unknown_output_format_is_refused(tenon: Tenon) -> None:
    for command in (("list",), ("show", "a")):
        answer = tenon(*command, "--cluster", "a", "-o", "yaml")
        assert answer.exit_code == 2
        assert "'yaml' is not one of" in answer.stderr
