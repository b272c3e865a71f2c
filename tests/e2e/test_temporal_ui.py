"""Temporal's UI as an operator uses it, in headless Chromium: find a node, read why it is blocked, force its drain."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEROLLOUTS
from cli.temporal_ui import TemporalUi
from sandbox.cluster import Sandbox
from tests.e2e.browser import CHROMIUM, browser
from tests.e2e.conftest import MakePool, Run
from tests.e2e.lives import life_of
from tests.e2e.node_rollouts import Rollout
from tests.e2e.pools import SMALL
from tests.workflows.waiting import until
from workflows import names

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt-get install chromium")

WHO = {"by": "ann", "reason": "its disk is slow", "ticket": "OPS-12"}


async def link(tenon: Run, sandbox: Sandbox, *arguments: str) -> str:
    """The first link that `tenon ui` prints."""
    done = await asyncio.to_thread(tenon, "ui", *arguments, TEMPORAL_UI_URL=sandbox.temporal_ui)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0].split()[-1]


async def count(client: Client, query: str, number: int) -> bool:
    """Whether Temporal's list has so many workflows for a query."""
    return (await client.count_workflows(query)).count == number


async def test_an_operator_finds_a_blocked_node_and_forces_its_drain_in_the_dialog(
    make_pool: MakePool, tenon: Run, client: Client, sandbox: Sandbox
) -> None:
    """From the list's link to the end of the node, with what each page says on the way."""
    if not sandbox.temporal_ui:
        pytest.skip("this sandbox's Temporal has no UI: only the dev server has one")
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    await pool.protect("web")
    name, node = claim["metadata"]["name"], claim["status"]["nodeName"]
    workflow_id = names.nodeclaim_id(sandbox.cluster_name, name)
    own = f"{names.POOL.name} = '{pool.name}' AND ExecutionStatus = 'Running'"
    await until(lambda: count(client, f"{own} AND {names.STAGE.name} = 'live'", 1))

    async with browser() as ui:
        await ui.open(await link(tenon, sandbox, "--pool", pool.name))
        await ui.expect_on_page(workflow_id)
        await ui.picture("list", ui.page.get_by_role("link", name=workflow_id).first)
        await ui.click_workflow(workflow_id)
        await ui.expect_on_page("headline", f"of NodePool {pool.name}", "tab User Metadata")
        tab = ui.page.get_by_role("tab", name="User Metadata")
        await ui.picture("landing", ui.page.get_by_text("headline").first, tab)
        await ui.picture("starts", height=1300)

        drained = await asyncio.to_thread(
            tenon, "node", "drain", node, "--reason", "a new kernel", "--ticket", "OPS-11"
        )
        assert drained.returncode == 0, drained.stderr
        await until(lambda: count(client, f"{own} AND {names.BLOCKED.name} = true", 1))
        await ui.open(await link(tenon, sandbox, "--blocked", "--pool", pool.name))
        await ui.click_workflow(workflow_id)
        await ui.open_metadata()
        shown = await ui.expect_details(f"Node {node} of NodePool {pool.name} is draining and blocked", "OPS-11")
        for text in ("What resolves it", "kubectl edit poddisruptionbudget", "Why this node was bought", "USD/h"):
            assert text in shown
        assert "$" not in shown
        blocked = ui.details.get_by_text("Blocked", exact=True)
        await ui.picture("blocked", tab, blocked, height=1500)

        dialog = await ui.open_dialog("Send a Signal", "force_drain")
        option = dialog.get_by_role("option", name="force_drain")
        await expect(option).to_contain_text("DANGER: deletes all pods of the node at once")
        await ui.picture("signal", option)
        await ui.send(dialog, "force_drain", WHO)
        life = await life_of(client, sandbox, name)  # the page waits for less time than a node may need to go
        await ui.expect_status("Completed")
        await ui.page.get_by_role("tab", name="Timeline").click()
        await ui.picture("leaves", height=1300)
        await pool.gone(name)

        await ui.open(await link(tenon, sandbox, node))  # by the name of a Node that is gone
        await ui.expect_status("Completed")
        shown = await ui.expect_details("Left: ", "force drain requested (ann): its disk is slow, OPS-12")
        assert "The node is gone" in shown
        await ui.picture("gone", tab, height=1500)

    assert any("force drain requested (ann): its disk is slow, OPS-12" in entry.text for entry in life.timeline)
    assert life.pods_evicted == 1


async def test_a_command_says_why_it_ran_and_is_found_by_node_and_saving(
    make_pool: MakePool, tenon: Run, client: Client, sandbox: Sandbox
) -> None:
    """Also one for an empty node: its nodes, its reason and what it saves, on its page and in the list."""
    if not sandbox.temporal_ui:
        pytest.skip("this sandbox's Temporal has no UI: only the dev server has one")
    cluster = sandbox.cluster_name
    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name, node = claim["metadata"]["name"], claim["status"]["nodeName"]
    await pool.scale(0)
    await pool.gone(name)
    of_node = f"{names.COMMAND_NODES.name} = '{node}' AND {names.REASON.name} = 'Empty' AND {names.SAVING.name} > 0"
    await until(lambda: count(client, of_node, 1))
    (command,) = [execution async for execution in client.list_workflows(of_node)]
    price = (await life_of(client, sandbox, name)).price_per_hour
    assert command.typed_search_attributes[names.SAVING] == pytest.approx(price)

    async with browser() as ui:
        await ui.open(await link(tenon, sandbox, "--commands", "--pool", pool.name))
        await ui.expect_on_page(command.id)
        await ui.click_workflow(command.id)
        await ui.open_metadata()
        shown = await ui.expect_details(f"Empty: removes 1 node of NodePool {pool.name}: {node}")
        assert f"asked 1 node to leave, {price:.4f} USD/h" in shown
        await ui.picture("command")
        await ui.open(await link(tenon, sandbox, command.id.rsplit("/", 1)[-1]))
        await ui.expect_details("It has no pods that need another node, since 20")
        await ui.open(TemporalUi(sandbox.temporal_ui, client.namespace).workflow(names.provisioner_id(cluster)))
        await ui.open_metadata()
        await ui.expect_details("Last batches (UTC)", f"created {name}, planned at {price:.4f} USD/h")
        await ui.picture("provisioner")


async def test_a_rollout_says_how_far_each_nodepool_is_and_what_it_waits_for(
    make_pool: MakePool, kube: Kube, tenon: Run, client: Client, sandbox: Sandbox
) -> None:
    if not sandbox.temporal_ui:
        pytest.skip("this sandbox's Temporal has no UI: only the dev server has one")
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.deploy(3)
    await pool.running(3)
    rollout = Rollout(kube, pool)
    strategy = {"waves": ["1", "100%"], "soak": "5s"}
    try:
        await rollout.create(strategy=strategy, gates={"approval": [2]}, onFailure="Rollback")
        await rollout.reached("Settled")
        await rollout.change(userData="echo 1")
        await rollout.reached("Progressing", message="wave 2 waits for an approval")
        async with browser() as ui:
            workflow_id = names.rollout_id(sandbox.cluster_name, pool.name)
            await ui.open(TemporalUi(sandbox.temporal_ui, client.namespace).workflow(workflow_id))
            await ui.open_metadata()
            await ui.expect_details("wave 2 waits for an approval", f"tenon rollout approve {pool.name}", "passed")
            await ui.picture("rollout", height=1200)
    finally:
        await kube.delete(NODEROLLOUTS, pool.name)
