"""A cluster ends from EC2's tags alone, under the policy of its worker's role. Other clusters are not touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from cli.tearing_down.serving import is_polled
from tests.activities.teardown.account import Account, tags_of
from tests.activities.teardown.conftest import Tenon
from tests.workflows.waiting import until
from workflows import names
from workflows.garbage_collection import GarbageCollectionWorkflow

pytestmark = pytest.mark.integration


async def test_fifty_nodes_of_a_cluster_without_api_server_end(
    tenon: Tenon, cluster: str, account: Account, tmp_path: Path
) -> None:
    """Two clusters share the account, and the name of one begins with the name of the other."""
    other = f"{cluster}-2"
    ids, others = account.fill(cluster, 50), account.fill(other, 7)
    file = tmp_path / "report.md"
    result = await tenon(
        cluster,
        "--local-worker",
        "--yes",
        "--reason",
        "moved",
        "--ticket",
        "OPS-7",
        "--report",
        str(file),
        "-o",
        "json",
    )
    assert result.exit_code == 0, result.output
    assert account.alive(cluster) == account.templates(cluster) == account.profiles(cluster) == set()
    assert account.alive(other) == set(others)
    assert len(account.templates(other)) == len(account.profiles(other)) == 1
    document = json.loads(result.stdout)
    assert {item["name"] for item in document["ended"] if item["kind"] == "instance"} == set(ids)
    assert document["counts"] == {"instance": 50, "launch template": 1, "instance profile": 1}
    assert document["leftovers"] == []
    assert (document["reason"], document["ticket"]) == ("moved", "OPS-7")
    text = file.read_text()
    assert all(instance_id in text for instance_id in ids)
    assert len([action for action in account.changes() if action == "TerminateInstances"]) <= 3  # batches
    again = await tenon(cluster, "--local-worker", "--yes", "-o", "json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["ended"] == []


async def test_a_dry_run_shows_what_would_end_and_changes_nothing(tenon: Tenon, cluster: str, account: Account) -> None:
    ids = account.fill(cluster, 3)
    account.ec2.clear_calls()
    table = await tenon(cluster, "--local-worker", "--dry-run")
    assert table.exit_code == 0, table.output
    assert all(instance_id in table.stdout for instance_id in ids)
    assert f"Cluster {cluster} in us-west-2: 3 instances, 1 launch template, 1 instance profile; $" in table.stdout
    document = json.loads((await tenon(cluster, "--local-worker", "--dry-run", "-o", "json")).stdout)
    assert {instance["id"] for instance in document["survey"]["instances"]} == set(ids)
    assert document["survey"]["price"] > 0
    refused = await tenon(cluster, "--local-worker")
    assert refused.exit_code == 2
    assert "Nothing was ended: add --yes" in refused.stderr
    assert account.changes() == []
    assert account.alive(cluster) == set(ids)


async def test_what_ec2_refuses_to_end_is_reported_and_not_asked_for_ever(
    tenon: Tenon, cluster: str, account: Account
) -> None:
    """An instance with termination protection. The others end, and the profile stays with it."""
    ids = account.fill(cluster, 4)
    account.ec2.clear_calls()
    account.ec2.fault(
        "TerminateInstances", "OperationNotPermitted", message="it has termination protection", count=None, value=ids[2]
    )
    result = await tenon(cluster, "--local-worker", "--yes", "-o", "json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    leftovers = {(item["kind"], item["name"]): item["why"] for item in document["leftovers"]}
    assert set(leftovers) == {("instance", ids[2]), ("instance profile", f"{cluster}_profile")}
    assert "termination protection" in leftovers["instance", ids[2]]
    assert account.alive(cluster) == {ids[2]}
    assert account.profiles(cluster) == {f"{cluster}_profile"}
    account.ec2.clear_faults()
    assert (await tenon(cluster, "--local-worker", "--yes")).exit_code == 0
    assert account.alive(cluster) == account.profiles(cluster) == set()


async def test_an_instance_that_ec2_shows_late_ends_too(tenon: Tenon, cluster: str, account: Account) -> None:
    """EC2 loses answers, and throttles."""
    account.fill(cluster, 3)
    account.ec2.fault("TerminateInstances", "RequestLimitExceeded", count=2, status=503)
    account.ec2.fault("DescribeInstances", "InternalError", count=1, status=500)
    result = await tenon(cluster, "--local-worker", "--yes")
    assert result.exit_code == 0, result.output
    assert account.alive(cluster) == set()


async def test_what_lacks_a_tag_of_the_cluster_stays(tenon: Tenon, cluster: str, account: Account) -> None:
    tags = tags_of(cluster, "a")
    del tags[f"kubernetes.io/cluster/{cluster}"]
    stranger = account.ec2.plant_instance(tags, age_seconds=3600.0)
    assert (await tenon(cluster, "--local-worker", "--yes")).exit_code == 0
    assert account.alive(cluster) == {stranger}


async def test_a_worker_that_runs_is_not_bypassed(
    temporal: WorkflowEnvironment, tenon: Tenon, cluster: str, account: Account
) -> None:
    """It would buy again what the command ends."""
    ids = account.fill(cluster, 1)
    queue = names.task_queue(cluster)

    async def polled() -> bool:
        return await is_polled(temporal.client, queue)

    async with Worker(temporal.client, task_queue=queue, workflows=[GarbageCollectionWorkflow]):
        await until(polled)
        result = await tenon(cluster, "--local-worker", "--yes")
    assert result.exit_code == 2
    assert f"A worker of cluster {cluster} polls Temporal" in result.stderr
    assert account.alive(cluster) == set(ids)


async def test_without_any_worker_the_command_says_how_to_go_on(tenon: Tenon, cluster: str) -> None:
    result = await tenon(cluster, "--yes")
    assert result.exit_code == 2
    assert f"No worker of cluster {cluster} polls Temporal" in result.stderr
    assert "--local-worker" in result.stderr


async def test_a_name_that_differs_from_the_environments_is_refused(
    tenon: Tenon, cluster: str, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = account.fill(cluster, 1)
    monkeypatch.setenv("CLUSTER_NAME", "another")
    result = await tenon(cluster, "--local-worker", "--yes")
    assert result.exit_code == 2
    assert "CLUSTER_NAME is another" in result.stderr
    assert account.alive(cluster) == set(ids)
