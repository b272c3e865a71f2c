"""``tenon node`` against a real Temporal server: what a person reads of a node that is blocked."""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from typer.testing import CliRunner, Result

from cli.node import app
from tenon.evolve import evolve
from tenon.messages.base import ClaimRef
from tenon.messages.provisioning import LaunchReport, PendingPods, PurchasePause, ShortageWait, UnavailableTypes
from tenon.messages.reboot import RebootOutcome, RebootReply
from tenon.node.state import NodeClaimInput
from tests.cli.test_disruptions import running
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.fake_steps import FakeSteps
from tests.workflows.guarded_node import BUDGET, Guarded, state_of
from tests.workflows.node_workflow import Handle, live, newest
from tests.workflows.rebooting_world import RebootingWorld
from tests.workflows.refusing_ec2 import Planning, provisioner, refusing
from tests.workflows.serving import serving
from tests.workflows.test_approvals import ASKING, waits
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow
from workflows.provisioner import ProvisionerWorkflow

pytestmark = pytest.mark.integration

NAME = "default-x1"
Tenon = Callable[..., Result]


@pytest.fixture
def tenon(temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tenon:
    """Runs ``tenon node``, with no API server at hand."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@asynccontextmanager
async def listed(temporal: WorkflowEnvironment, cluster: str, world: FakeWorld) -> AsyncIterator[Handle]:
    """A live node with the attribute that the bridge starts every life with, and `tenon node list` looks for."""
    queue = names.task_queue(cluster)
    async with serving(temporal.client, cluster, world.all()):
        with temporal.with_time_skipping_disabled():
            await temporal.client.start_workflow(
                NodeClaimWorkflow.run,
                NodeClaimInput(claim=ClaimRef(cluster=cluster, name=NAME, uid="u1")),
                id=names.nodeclaim_id(cluster, NAME),
                task_queue=queue,
                search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, cluster)]),
            )
        yield await live(temporal.client, cluster)


@pytest_asyncio.fixture
async def world(temporal: WorkflowEnvironment, cluster: str) -> AsyncIterator[Guarded]:
    """A node whose drain is blocked by a budget, with two days of grace."""
    guarded = Guarded(grace=timedelta(days=2))
    async with listed(temporal, cluster, guarded) as handle:
        await handle.signal(NodeClaimWorkflow.drain)
        await until(lambda: blocked(temporal.client, cluster))
        yield guarded


async def blocked(client: Client, cluster: str) -> bool:
    """Whether the node is blocked, and Temporal's list knows."""
    query = f'{names.CLUSTER.name} = "{cluster}" AND {names.BLOCKED.name} = true'
    workflows = [run.id async for run in client.list_workflows(query)]
    return bool((await state_of(newest(client, cluster))).blocked) and names.nodeclaim_id(cluster, NAME) in workflows


@pytest.mark.usefixtures("world")
async def test_show_says_what_blocks_a_node_and_what_resolves_it(tenon: Tenon, cluster: str) -> None:
    """TRM-05, TRM-06: pod and budget by name, the reason to leave, the instant of force, and the commands."""
    shown = await asyncio.to_thread(tenon, "show", NAME, "--cluster", cluster)
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert BUDGET in text
    assert "tenon node force-drain default-x1 deletes the pods at once, whatever protects them" in text
    assert "kubectl edit poddisruptionbudget -n default web" in text
    assert "drain (an operator, by a Temporal signal)" in text
    assert "All pods are deleted, whatever protects them, by 20" in text
    assert "Next attempt at 20" in text


@pytest.mark.usefixtures("world")
async def test_the_blocked_nodes_are_listed_with_their_reasons(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    """`tenon node list --blocked`: only the blocked, each with its way out; scripts get the same."""
    table = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked")
    assert table.exit_code == 0, table.output
    text = " ".join(table.output.split())
    assert f"{NAME}: {BUDGET}" in text
    assert f"tenon node force-drain {NAME}" in text
    [row] = json.loads((await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked", "-o", "json")).stdout)
    assert (row["nodeClaim"], row["blocked"], row["why"]) == (NAME, True, BUDGET)
    assert row["blockingPods"]
    assert all(pod in row["why"] for pod in row["blockingPods"])
    assert any("force-drain" in remedy for remedy in row["remedies"])
    assert f"{BUDGET}, since {row['since'].replace('T', ' ').removesuffix('Z')} UTC" in text

    refused = await asyncio.to_thread(tenon, "keep", NAME, "--cluster", cluster)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"{NAME} refuses: it is leaving already: drain (an operator, ")

    why = ("--reason", "its disk is slow", "--ticket", "OPS-12")
    forced = await asyncio.to_thread(tenon, "force-drain", NAME, "--cluster", cluster, *why)
    assert forced.exit_code == 0, forced.output
    life = await newest(temporal.client, cluster).result()
    actor = f"{getpass.getuser()}@{socket.gethostname()} with tenon node"
    requested = f"force drain requested ({actor}): its disk is slow, OPS-12"
    assert any(requested in entry.text for entry in life.timeline)

    async def gone() -> bool:
        listed = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked", "-o", "json")
        return listed.exit_code == 0 and json.loads(listed.stdout) == []

    await until(gone)


@pytest.mark.usefixtures("world")
async def test_a_list_that_is_piped_is_plain_and_not_cut(
    tenon: Tenon, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into a file or another command, whatever the width of the terminal."""
    monkeypatch.setenv("COLUMNS", "20")
    plain = await asyncio.to_thread(tenon, "list", "--cluster", cluster)
    header, row = plain.output.splitlines()[:2]
    columns = "Node NodeClaim Stage Ready NodePool Type Capacity Zone $/h Age Pods CPU Memory Cores GiB Expires"
    assert header.split() == [*columns.split(), "Disruption", "Why"]
    assert row.split()[-1] == "Drain"
    assert f"{NAME}   draining blocked" in row
    assert row.index(NAME) == header.index("NodeClaim")
    assert plain.stderr.startswith("From Temporal alone, without Nodes, use and prices: ")


async def test_the_nodepools_that_ec2_refuses_are_listed_with_the_blocked_nodes(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    """Also when no NodeClaim of them is left; scripts get a row without a NodeClaim."""
    async with provisioner(temporal, cluster, Planning()) as handle:
        await handle.signal(ProvisionerWorkflow.launches_reported, refusing().report())
        table = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked")
        assert table.exit_code == 0, table.output
        assert "NodePool web: its launches are held back because EC2 refuses them" in " ".join(table.output.split())
        rows = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked", "-o", "json")
        row, shortage = json.loads(rows.stdout)
        assert (row["nodeClaim"], row["nodePool"]) == ("", "web")
        assert "Unauthorized: you may not" in row["why"]
        sentence = "EC2 refuses 1 spot offering (m5.large in us-west-2a): next attempt at "
        assert f"Capacity: {sentence}" in " ".join(table.output.split())
        assert (shortage["nodeClaim"], shortage["nodePool"]) == ("", "")
        assert shortage["why"].startswith(sentence)
        (offering,) = shortage["offerings"]
        assert offering.pop("nextAttemptAt") == shortage["why"].removeprefix(sentence), "the only time that is named"
        assert "tenon explain nodepool NAME" in shortage["remedies"][-1]
        assert shortage["remedies"][-1].replace("`", "") in " ".join(table.output.replace("`", "").split())
        assert "tenon doctor" in row["remedies"][-1]
        place = {"capacityType": "spot", "instanceType": "m5.large", "zone": "us-west-2a"}
        assert offering == place | {"refusalsInARow": 1}
        plain = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "-o", "json")
        assert json.loads(plain.stdout) == []


async def test_sch018_pods_for_which_no_nodes_are_bought_are_listed_with_the_blocked_nodes(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    """Which pods, until when, and kube-scheduler's own sentence. A pause that is over is not listed."""
    now = datetime.now(UTC)
    until_then = now + timedelta(minutes=5)
    planning = Planning()
    planning.pauses = [
        PurchasePause(group="over", nodes=3, pods=["shop/old-0"], waiting=1, until=now - timedelta(minutes=1)),
        PurchasePause(group="none", nodes=1, pods=["shop/new-0"], waiting=1),
        PurchasePause(
            group="scratch",
            nodes=2,
            pool="web",
            pods=["shop/db-0", "shop/db-1", "shop/db-2"],
            waiting=7,
            refusal="0/3 nodes are available: 3 Insufficient ephemeral-storage.",
            until=until_then,
        ),
    ]
    async with provisioner(temporal, cluster, planning) as handle:
        planning.pods.set()

        async def known() -> bool:
            return await handle.query(ProvisionerWorkflow.purchase_pauses) != []

        await until(known)
        table = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked")
        assert table.exit_code == 0, table.output
        text = (
            "Tenon bought 2 nodes for pods shop/db-0, shop/db-1, shop/db-2 and 4 more, and kube-scheduler placed none "
            'of them there: "0/3 nodes are available: 3 Insufficient ephemeral-storage". Tenon buys no more nodes for '
            f"them until {until_then:%Y-%m-%dT%H:%M:%SZ}, unless they, a NodePool or an EC2NodeClass change"
        )
        assert f"Pods: {text}" in " ".join(table.output.split())
        assert "shop/old-0" not in table.output
        assert "shop/new-0" not in table.output
        answer = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked", "-o", "json")
        (row,) = json.loads(answer.stdout)
        assert (row["nodeClaim"], row["nodePool"], row["why"], row["waitingPods"]) == ("", "web", text, 7)
        plain = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "-o", "json")
        assert json.loads(plain.stdout) == []


async def test_pods_that_no_node_can_be_bought_for_are_listed_with_the_blocked_nodes(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    planning = Planning()
    why = "NodePool web: needs 90 CPU; the largest type it allows has 4 CPU"
    planning.pending = [
        PendingPods(why=why, pods=["shop/a", "shop/b", "shop/c"], count=7),
        PendingPods(why="web-1 was bought for it", pods=["shop/d"], count=1, has_place=True),
    ]
    async with provisioner(temporal, cluster, planning) as handle:
        planning.pods.set()

        async def is_planned() -> bool:
            return await handle.query(ProvisionerWorkflow.last) is not None

        await until(is_planned)
        table = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked")
        text = f"No node is bought for 7 pods (shop/a, shop/b, shop/c and 4 more): {why}"
        assert f"Pods: {text}" in " ".join(table.output.split())
        assert "tenon explain pod shop/a" in table.output, "what a person can do"
        assert "shop/d" not in table.output
        rows = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked", "-o", "json")
        (row,) = json.loads(rows.stdout)
        assert (row["why"], row["pods"], row["waitingPods"]) == (text, ["shop/a", "shop/b", "shop/c"], 7)
        assert "tenon explain pod shop/a" in row["remedies"][0]


async def test_commands_that_wait_for_an_approval_are_listed_with_the_blocked_nodes(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, FakeSteps(), ASKING) as handle:
            await waits(handle)

            async def is_listed() -> bool:
                answer = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked", "-o", "json")
                return answer.exit_code == 0 and [row["command"] for row in json.loads(answer.stdout)] == [ASKING.id]

            await until(is_listed)
            table = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked")
    text = " ".join(table.output.split())
    assert f"Command {ASKING.id}: Underutilized would remove " in text
    assert f"tenon approve {ASKING.id}, or tenon refuse {ASKING.id}" in text


async def test_pods_that_wait_in_a_shortage_are_listed_while_ec2_refuses_what_they_wait_for(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    """With the time of the next attempt by now, which the plan did not know."""
    planning = Planning()
    waiting = ShortageWait(
        pool="web",
        pods=5,
        pod="team/a",
        instance_type="m9gd.16xlarge",
        price=4.0224,
        usual_type="c6g.2xlarge",
        usual_price=0.272,
        until=datetime.now(UTC) + timedelta(minutes=3),
    )
    planning.waits = [waiting, evolve(waiting, pool="past", usual_type="c6g.4xlarge")]
    refused_at = datetime.now(UTC).replace(microsecond=0)
    refused = UnavailableTypes(
        capacity_type="on-demand",
        zone="us-west-2a",
        instance_types=["c6g.2xlarge"],
        until=refused_at + timedelta(minutes=12),
        refused_at=refused_at,
        refusals=3,
    )
    async with provisioner(temporal, cluster, planning) as handle:
        await handle.signal(ProvisionerWorkflow.launches_reported, LaunchReport(unavailable=[refused]))
        planning.pods.set()

        async def reported() -> bool:
            return [item.pool for item in (await handle.query(ProvisionerWorkflow.launches)).waits] == ["web"]

        await until(reported)
        table = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked")
        sentence = (
            "5 pods, such as team/a, wait for a cheaper node: NodePool web: EC2 refused c6g.2xlarge at $0.2720 an "
            "hour, and the cheapest node left is m9gd.16xlarge at $4.0224: next attempt at "
        )
        assert f"Pending pods: {sentence}" in " ".join(table.output.split())
        rows = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked", "-o", "json")
        row, capacity = json.loads(rows.stdout)
        assert (row["nodeClaim"], row["nodePool"], row["blocked"]) == ("", "web", True)
        assert row["why"].startswith(sentence)
        assert row["why"].endswith(row["nextAttemptAt"])
        assert row["nextAttemptAt"] == capacity["offerings"][0]["nextAttemptAt"]
        assert "kubectl annotate pod -n team a tenon.sh/shortage-policy=Buy" in row["remedies"][-1]


async def test_a_node_that_is_well_has_nothing_to_resolve(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    """Neither a block nor a deadline is made up; the plain list has the node, the list of the blocked has not."""
    async with listed(temporal, cluster, Guarded()) as handle:
        shown = await asyncio.to_thread(tenon, "show", NAME, "--cluster", cluster)
        assert shown.exit_code == 0, shown.output
        assert "resolves" not in shown.output
        assert "force-drain" not in shown.output

        async def alone() -> bool:
            rows = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "-o", "json")
            return [(row["nodeClaim"], row["blocked"]) for row in json.loads(rows.stdout)] == [(NAME, False)]

        await until(alone)
        only = await asyncio.to_thread(tenon, "list", "--cluster", cluster, "--blocked", "-o", "json")
        assert json.loads(only.stdout) == []
        await handle.terminate()


async def test_a_question_that_temporal_refuses_is_a_sentence(tenon: Tenon) -> None:
    answer = await asyncio.to_thread(tenon, "list", "--cluster", 'a"b')
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr.startswith("Temporal refused: ")
    assert answer.stderr.count("\n") == 1


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


async def test_a_request_that_no_worker_answers_is_kept_by_temporal(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker may be away just when a node must go."""
    monkeypatch.setattr("cli.nodes.requests.ANSWERED_WITHIN", timedelta(seconds=1))
    async with listed(temporal, cluster, Guarded()):
        pass
    with temporal.with_time_skipping_disabled():
        answer = await asyncio.to_thread(tenon, "force-drain", NAME, "--cluster", cluster, "--reason", "it smokes")
        assert answer.exit_code == 0, answer.output
        assert answer.stderr == "No worker answers. Temporal keeps the request until one runs.\n"
    async with serving(temporal.client, cluster, Guarded().all()):
        life = await newest(temporal.client, cluster).result()
    assert (life.reason, life.detail) == ("force_drain", "it smokes")


def test_an_unknown_output_format_is_refused(tenon: Tenon) -> None:
    for command in (("list",), ("show", "a")):
        answer = tenon(*command, "--cluster", "a", "-o", "yaml")
        assert answer.exit_code == 2
        assert "'yaml' is not one of" in answer.stderr


async def test_a_drain_that_waits_shows_progress_until_the_node_is_gone(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    async with listed(temporal, cluster, Guarded()):
        with temporal.with_time_skipping_disabled():
            arguments = ("force-drain", NAME, "--cluster", cluster, "--reason", "the rack burns", "--wait")
            answer = await asyncio.to_thread(tenon, *arguments)
    assert answer.exit_code == 0, answer.output
    lines = answer.stdout.splitlines()
    assert lines[0].startswith(f"{NAME}: draining by force")
    assert any("the rack burns" in line for line in lines)
    assert lines[-1].endswith(f"{NAME}: gone")


async def test_a_drain_that_waits_outlasts_moments_without_temporal(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, query = [RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED], WorkflowHandle.query

    async def sometimes(handle: WorkflowHandle[Any, Any], *arguments: Any, **options: Any) -> Any:
        if failures:
            raise RPCError("no answer", failures.pop(), b"")
        return await query(handle, *arguments, **options)

    async with listed(temporal, cluster, Guarded()):
        monkeypatch.setattr("cli.nodes.control.FOLLOW_SECONDS", 0.01)
        monkeypatch.setattr(WorkflowHandle, "query", sometimes)
        with temporal.with_time_skipping_disabled():
            arguments = ("force-drain", NAME, "--cluster", cluster, "--reason", "the rack burns", "--wait")
            answer = await asyncio.to_thread(tenon, *arguments)
    assert (answer.exit_code, failures) == (0, []), answer.output


@pytest.mark.usefixtures("world")
async def test_nothing_is_waited_for_if_the_node_refuses(tenon: Tenon, cluster: str) -> None:
    """The node of the fixture drains already, so it refuses to expire."""
    refused = await asyncio.to_thread(tenon, "expire", NAME, "--cluster", cluster, "--wait")
    assert (refused.exit_code, refused.stdout) == (2, "")


async def test_a_drain_that_is_blocked_ends_the_wait_with_one(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    async with listed(temporal, cluster, Guarded(grace=timedelta(days=2))):
        with temporal.with_time_skipping_disabled():
            arguments = ("drain", NAME, "--cluster", cluster, "--wait", "--timeout", "1s")
            answer = await asyncio.to_thread(tenon, *arguments)
    assert answer.exit_code == 1
    assert answer.stderr == f"1 node not gone in time: {NAME}. See `tenon node list --blocked`.\n"


async def test_unkeep_ends_what_keep_began(temporal: WorkflowEnvironment, tenon: Tenon, cluster: str) -> None:
    async with listed(temporal, cluster, Guarded()) as handle:
        nothing = await asyncio.to_thread(tenon, "unkeep", NAME, "--cluster", cluster)
        assert nothing.exit_code == 2
        assert "no earlier request keeps it" in nothing.stderr
        accepted = await asyncio.to_thread(tenon, "keep", NAME, "--cluster", cluster, "--for", "4h")
        assert accepted.exit_code == 0, accepted.output
        ended = await asyncio.to_thread(tenon, "unkeep", NAME, "--cluster", cluster, "--reason", "done")
        assert (ended.exit_code, ended.stdout) == (0, f"{NAME}: no longer kept\n")
        texts = [entry.text for entry in (await state_of(newest(temporal.client, cluster))).timeline]
        assert any(text.startswith("no longer kept: done (") for text in texts)
        await handle.terminate()


async def test_a_person_is_asked_before_pods_go_also_while_the_api_server_is_away(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nobody can say how many pods. Without a yes, the node stays."""
    monkeypatch.setattr("cli.nodes.control.is_interactive", lambda: True)
    async with listed(temporal, cluster, Guarded()) as handle:
        arguments = ("force-drain", NAME, "--cluster", cluster, "--reason", "x")
        declined = await asyncio.to_thread(tenon, *arguments)
        assert declined.exit_code != 0
        assert f"Force-drain {NAME} and all its pods? [y/N]" in declined.output
        assert "Which pods would move is not known: " in declined.stderr
        assert (await state_of(handle)).leave is None
        agreed = await asyncio.to_thread(tenon, *arguments, "--yes")
        assert agreed.exit_code == 0, agreed.output
        await newest(temporal.client, cluster).result()


async def test_a_reboot_shows_its_steps_and_says_who_asked(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    async with listed(temporal, cluster, RebootingWorld()) as handle:
        with temporal.with_time_skipping_disabled():
            arguments = ("reboot", NAME, "--cluster", cluster, "--grace-period", "0s", "--ticket", "OPS-12")
            answer = await asyncio.to_thread(tenon, *arguments)
        assert answer.exit_code == 0, answer.output
        lines = answer.stdout.splitlines()
        assert lines[0] == f"{NAME}: rebooting; follow it with `tenon node show {NAME}`"
        actor = f"{getpass.getuser()}@{socket.gethostname()} with tenon node"
        assert any(f"reboot requested: an operator's request, OPS-12 ({actor})" in line for line in lines)
        assert lines[-1].endswith(f"{NAME}: rebooted")
        long = await asyncio.to_thread(tenon, "reboot", NAME, "--cluster", cluster, "--reason", "x" * 9999)
        assert (long.exit_code, long.stdout) == (2, "")
        assert f"{NAME} is not asked: reason has 9999 characters" in long.stderr
        await handle.terminate()


async def test_a_reboot_that_goes_on_ends_the_wait_with_one_and_refuses_a_second(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str
) -> None:
    world = RebootingWorld()
    world.replies = [RebootReply(outcome=RebootOutcome.REFUSED, message="EC2 is busy")]
    async with listed(temporal, cluster, world) as handle:
        with temporal.with_time_skipping_disabled():
            arguments = ("reboot", NAME, "--cluster", cluster, "--grace-period", "0s", "--reason", "new kernel")
            late = await asyncio.to_thread(tenon, *arguments, "--timeout", "1s")
            again = await asyncio.to_thread(tenon, *arguments, "--no-wait")
        assert late.exit_code == 1
        assert late.stderr == f"1 node not rebooted in time: {NAME}. See `tenon node list --blocked`.\n"
        assert (again.exit_code, again.stdout) == (2, "")
        assert again.stderr.startswith(f"{NAME} does not reboot: it reboots already: new kernel")
        await handle.terminate()
