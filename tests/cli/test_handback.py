"""``tenon handback``: which workflows it ends, also without Deployments, and what it asks first."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from typer.testing import CliRunner, Result

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, Resource
from cli.handback import app
from cli.switching.clearing import StillLeadsError, end_workflows, marks_removed, wait_until_lease_free
from tests.cli.test_switching import warm_claim
from tests.workflows.waiting import until
from worker.runtime.leader.garbage_collection_schedule import ensure_schedule
from workflows import names
from workflows.garbage_collection import schedule_id


@pytest.mark.integration
async def test_every_workflow_of_the_cluster_ends_and_none_of_another(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Also a command's, which carries no cluster's name but in its id; the Schedule goes, so that none comes again."""
    client, other = temporal.client, f"{cluster}-2"
    for name in (cluster, other):
        for kind, workflow_id in (
            ("NodeClaim", names.nodeclaim_id(name, "default-x1")),
            ("Provisioner", names.provisioner_id(name)),
            ("DisruptionCommand", names.command_id(name, "7")),
        ):
            await client.start_workflow(kind, id=workflow_id, task_queue=names.task_queue(name))
        await ensure_schedule(client, name)

    async def are_listed() -> bool:
        """Temporal lists workflows a moment after their start."""
        of_cluster = f"TaskQueue = '{names.task_queue(cluster)}' AND ExecutionStatus = 'Running'"
        return (await client.count_workflows(of_cluster)).count == 3

    await until(are_listed)
    assert await end_workflows(client, cluster) == 3
    assert await end_workflows(client, cluster) == 0, "to hand back twice is harmless"
    workflows = {workflow.id async for workflow in client.list_workflows("ExecutionStatus = 'Running'")}
    assert not {workflow_id for workflow_id in workflows if cluster in workflow_id and other not in workflow_id}
    assert names.nodeclaim_id(other, "default-x1") in workflows
    with pytest.raises(RPCError, match="not found"):
        await client.get_schedule_handle(schedule_id(cluster)).describe()
    ended = await client.get_workflow_handle(names.command_id(cluster, "7")).describe()
    assert ended.status is WorkflowExecutionStatus.TERMINATED
    await end_workflows(client, other)


class Workers:
    """The Leases of a cluster, each of which is renewed between any two looks."""

    def __init__(self, *holders: str) -> None:
        self._holders = holders
        self._version = 0

    async def list(self, _resource: Any, *, field_selector: str) -> list[dict[str, Any]]:
        assert field_selector == "metadata.name=karpenter-leader-election"
        self._version += 1
        metadata = {"namespace": "tenon", "resourceVersion": str(self._version)}
        return [{"metadata": metadata, "spec": {"holderIdentity": holder}} for holder in self._holders]


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_no_workflow_is_ended_under_a_worker() -> None:
    workers = cast("Kube", Workers("tenon/tenon-7d9f-x2x4k_7"))
    with pytest.raises(StillLeadsError, match="stop all workers first"):
        await wait_until_lease_free(workers, "karpenter-leader-election", print)


@pytest.mark.asyncio(loop_scope="function")
async def test_a_karpenter_that_leads_already_is_nothing_to_wait_for() -> None:
    karpenter = Workers("karpenter-6d9f8c7b5-x2x4k_0e1c9c3e-7c51-4a6e-9f0a-2d1c1f6f8b11", "")
    await wait_until_lease_free(cast("Kube", karpenter), "karpenter-leader-election", print)


class WithoutDeployments:
    """A cluster that has neither Karpenter nor Tenon."""

    host = "https://10.0.0.1"

    async def list(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
        return []

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def cleared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clusters of which the workflows were ended."""
    clusters: list[str] = []

    async def clear(_kube: object, name: str, report: Callable[[str], None]) -> None:
        clusters.append(name)
        report(f"ended 3 workflows of cluster {name}")

    async def connect() -> WithoutDeployments:
        return WithoutDeployments()

    monkeypatch.setattr("cli.handback.Kube.connect", connect)
    monkeypatch.setattr("cli.handback.clear", clear)
    return clusters


def hand_back(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["--cluster", "prod", *arguments])


def test_without_deployments_nothing_ends_before_a_person_agrees(cleared: list[str]) -> None:
    """The context of the kubeconfig may be that of another cluster."""
    refused = hand_back()
    assert (refused.exit_code, cleared) == (2, [])
    assert refused.stderr == "Nothing was changed: add --yes, because no one is at a terminal to confirm it.\n"
    assert "https://10.0.0.1" in refused.stdout, "a person sees which cluster it is about"
    done = hand_back("--yes")
    assert (done.exit_code, cleared) == (0, ["prod"])
    assert done.stdout.splitlines()[-1] == "You can start Karpenter now."


def test_without_deployments_nothing_ends_while_nodes_are_warm(
    cleared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def claims(_kube: object, resource: Resource, **_: Any) -> list[dict[str, Any]]:
        return [warm_claim("web-1")] if resource is NODECLAIMS else []

    monkeypatch.setattr(WithoutDeployments, "list", claims)
    refused = hand_back("--yes")
    assert (refused.exit_code, cleared) == (2, [])
    assert "1 warm node (web-1)" in refused.stderr


def test_without_deployments_json_has_no_sentences(cleared: list[str]) -> None:
    done = hand_back("--yes", "-o", "json")
    assert (done.exit_code, cleared) == (0, ["prod"])
    assert json.loads(done.stdout) == {"direction": "handback", "outcome": "done"}
    assert "ended 3 workflows of cluster prod" in done.stderr


def test_the_sentence_counts_nodes_and_nodeclaims_together() -> None:
    assert marks_removed(8, 4, 4) == "removed Tenon's marks from 8 of 8 objects: 4 Nodes and 4 NodeClaims"
    assert marks_removed(0, 1, 0) == "removed Tenon's marks from 0 of 1 object: 1 Node and 0 NodeClaims"
