"""``tenon node list --blocked``: the blocked nodes, and all that waits for a person."""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.testing import WorkflowEnvironment

from tenon.evolve import evolve
from tenon.kube.timestamps import time_text
from tenon.messages.provisioning import LaunchReport, PendingPods, PurchasePause, ShortageWait, UnavailableTypes
from tests.cli.nodes.blocked_node import NAME, Tenon, listed
from tests.cli.test_disruptions import running
from tests.workflows.approvable_command import ASKING, waits
from tests.workflows.fake_steps import FakeSteps
from tests.workflows.guarded_node import BUDGET, Guarded
from tests.workflows.node_workflow import newest
from tests.workflows.refusing_ec2 import Planning, provisioner, refusing
from tests.workflows.waiting import until
from workflows.provisioner import ProvisionerWorkflow

pytestmark = pytest.mark.integration


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
    assert refused.stderr.startswith(f"{NAME} refuses: it is leaving already: Drain (an operator, ")

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
        attempt = time_text(datetime.fromisoformat(offering.pop("nextAttemptAt")))
        assert attempt == shortage["why"].removeprefix(sentence), "the only time that is named"
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
            f"them until {until_then:%Y-%m-%d %H:%M:%S} UTC, unless they, a NodePool or an EC2NodeClass change"
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
        assert row["why"].endswith(time_text(datetime.fromisoformat(row["nextAttemptAt"])))
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
