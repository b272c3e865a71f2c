"""What a teardown does in Kubernetes: it marks the users' objects, asks nodes to leave, and releases what is left."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.kubernetes.errors import ApiError, ApiUnreachableError, ForbiddenError, WriteStoppedError
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODEPOOLS, NODES
from activities.teardown import kubernetes_objects
from activities.teardown.kubernetes_objects import ClusterObjects
from tenon.apis import labels
from tenon.messages.base import API_SERVER_UNREACHABLE, ErrorType
from tenon.messages.node import Operator
from tenon.messages.teardown import DrainClusterInput, TeardownInput
from tests.activities.node.fake_kube import Clock, FakeKube

CLUSTER = "prod"
OURS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
AUTO_MODE = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
FINALIZER = labels.TERMINATION_FINALIZER


@pytest.fixture
def kube() -> FakeKube:
    fake_kube = FakeKube(Clock())
    for name, reference in (("web", OURS), ("system", AUTO_MODE)):
        spec = {"template": {"spec": {"nodeClassRef": reference}}}
        fake_kube.add(NODEPOOLS, {"metadata": {"name": name}, "spec": spec})
        status = {"nodeName": f"node-{name}"}
        metadata: dict[str, Any] = {"name": f"{name}-1", "finalizers": [FINALIZER]}
        fake_kube.add(NODECLAIMS, {"metadata": metadata, "spec": {"nodeClassRef": reference}, "status": status})
        node_labels = {"karpenter.k8s.aws/ec2nodeclass": "default"}
        node_metadata = {"name": f"node-{name}", "finalizers": [FINALIZER], "labels": node_labels}
        fake_kube.add(NODES, {"metadata": node_metadata, "spec": {}})
    fake_kube.add(NODES, {"metadata": {"name": "node-group", "labels": {}}, "spec": {}})
    fake_kube.add(EC2NODECLASSES, {"metadata": {"name": "default", "finalizers": [labels.NODECLASS_FINALIZER, "mine"]}})
    return fake_kube


class Signals:
    """The workflows of nodes, as the steps signal them.

    ``closed`` names NodeClaims without one, ``down`` those whose signal fails.
    """

    def __init__(self, closed: frozenset[str] = frozenset(), down: frozenset[str] = frozenset()) -> None:
        self.requests: list[tuple[str, str, Operator]] = []
        self.closed = closed
        self.down = down

    def client(self) -> Any:
        client = MagicMock()
        client.get_workflow_handle.side_effect = self._handle
        return client

    def _handle(self, workflow_id: str) -> Any:
        async def signal(name: str, operator: Operator) -> None:
            if workflow_id.rsplit("/", 1)[-1] in self.closed:
                raise RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
            if workflow_id.rsplit("/", 1)[-1] in self.down:
                raise RPCError("namespace limit", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
            self.requests.append((workflow_id, name, operator))

        return MagicMock(signal=AsyncMock(side_effect=signal))


async def run(step: Any, step_input: Any, signals: Signals | None = None) -> Any:
    return await ActivityEnvironment(client=(signals or Signals()).client()).run(step, step_input)


def marked(kube: FakeKube, resource: Any) -> set[str]:
    return {
        name
        for (plural, _, name), obj in kube.objects.items()
        if plural == resource.plural and labels.TEARDOWN in obj["metadata"].get("annotations", {})
    }


async def test_only_tenons_nodepools_get_the_mark_and_a_second_time_nothing_is_written(kube: FakeKube) -> None:
    step = ClusterObjects(kube, CLUSTER).stop_buying  # type: ignore[arg-type]
    result = await run(step, TeardownInput(cluster=CLUSTER))
    assert (result.pools, result.classes) == (["web"], ["default"])
    assert (marked(kube, NODEPOOLS), marked(kube, EC2NODECLASSES)) == ({"web"}, {"default"})
    writes = len(kube.calls)
    await run(step, TeardownInput(cluster=CLUSTER))
    assert len(kube.calls) == writes


async def test_nodes_are_asked_with_actor_and_reason_and_their_nodeclaims_deleted(kube: FakeKube) -> None:
    signals = Signals()
    step = ClusterObjects(kube, CLUSTER).drain  # type: ignore[arg-type]
    drain = DrainClusterInput(cluster=CLUSTER, by="ann", reason="moved", ticket="OPS-7")
    assert (await run(step, drain, signals)).claims == ["web-1"]
    assert signals.requests == [("nodeclaim/prod/web-1", "drain", Operator(by="ann", reason="moved", ticket="OPS-7"))]
    assert "deletionTimestamp" in kube.objects["nodeclaims", "", "web-1"]["metadata"]
    assert "deletionTimestamp" not in kube.objects["nodeclaims", "", "system-1"]["metadata"]
    await run(step, drain, signals)
    assert len(signals.requests) == 1
    await run(step, drain.model_copy(update={"force": True}), signals)
    assert [name for _, name, _ in signals.requests] == ["drain", "force_drain"]


async def test_a_nodeclaim_without_a_workflow_is_deleted_which_starts_one(kube: FakeKube) -> None:
    step = ClusterObjects(kube, CLUSTER).drain  # type: ignore[arg-type]
    await run(step, DrainClusterInput(cluster=CLUSTER), Signals(frozenset({"web-1"})))
    assert "deletionTimestamp" in kube.objects["nodeclaims", "", "web-1"]["metadata"]


async def test_finalizers_are_removed_from_what_is_tenons_alone(kube: FakeKube) -> None:
    """EKS Auto Mode has objects of the same kinds, with the same finalizer. A finalizer of others is named."""
    kube.objects["nodeclaims", "", "web-1"]["metadata"]["finalizers"].append("example.com/backup")
    step = ClusterObjects(kube, CLUSTER).remove_finalizers  # type: ignore[arg-type]
    result = await run(step, TeardownInput(cluster=CLUSTER))
    assert result.removed == {"finalizer": ["EC2NodeClass default", "Node node-web", "NodeClaim web-1"]}
    assert [(item.kind, item.name) for item in result.leftovers] == [("NodeClaim", "web-1")]
    assert "example.com/backup" in result.leftovers[0].why
    assert set(kube.names(NODES)) == {"node-system", "node-group"}
    assert kube.objects["ec2nodeclasses", "", "default"]["metadata"]["finalizers"] == ["mine"]
    assert kube.objects["nodeclaims", "", "system-1"]["metadata"]["finalizers"] == [FINALIZER]


async def test_the_result_stays_small_however_many_nodes_have_a_finalizer_of_others(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_objects, "MAX_LISTED", 3)
    for number in range(6, 1, -1):
        metadata = {"name": f"web-{number}", "finalizers": [FINALIZER, "example.com/backup"]}
        kube.add(NODECLAIMS, {"metadata": metadata, "spec": {"nodeClassRef": OURS}})
    step = ClusterObjects(kube, CLUSTER).remove_finalizers  # type: ignore[arg-type]
    result = await run(step, TeardownInput(cluster=CLUSTER))
    assert [item.name for item in result.leftovers] == ["web-2", "web-3", "web-4"]


async def test_what_the_api_server_refuses_for_one_object_stops_no_other(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2, 30):
        spec = {"nodeClassRef": OURS}
        kube.add(NODECLAIMS, {"metadata": {"name": f"web-{number}"}, "spec": spec})
    kube.undeletable.add("web-1")
    real_patch = kube.patch

    async def patch(resource: Any, name: str, body: Any, **options: Any) -> Any:
        if name == "web":
            raise ForbiddenError(403, "Forbidden", "an admission policy guards it")
        return await real_patch(resource, name, body, **options)

    monkeypatch.setattr(kube, "patch", patch)
    signals = Signals(down=frozenset({"web-2"}))
    result = await run(ClusterObjects(kube, CLUSTER).drain, DrainClusterInput(cluster=CLUSTER), signals)  # type: ignore[arg-type]
    assert [(item.kind, item.name) for item in result.unmarked] == [("NodePool", "web")]
    assert [(item.kind, item.name) for item in result.unasked] == [("NodeClaim", "web-1"), ("NodeClaim", "web-2")]
    assert "denied by policy" in result.unasked[0].why
    assert result.claim_count == 29
    assert marked(kube, EC2NODECLASSES) == {"default"}
    stays = {name for name in kube.names(NODECLAIMS) if name.startswith("web")}
    assert {name for name in stays if "deletionTimestamp" not in kube.objects["nodeclaims", "", name]["metadata"]} == {
        "web-1",
        "web-2",
    }


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ApiUnreachableError("k8s:443", "connection refused"), API_SERVER_UNREACHABLE),
        (WriteStoppedError("k8s:443", "another controller leads"), None),
        (ForbiddenError(403, "Forbidden", "no right"), None),
    ],
    ids=["unreachable", "stands-by", "refused"],
)
async def test_only_an_api_server_that_does_not_answer_is_told_apart(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str | None
) -> None:
    async def unanswered(resource: Any, **_: Any) -> Any:
        raise error

    monkeypatch.setattr(kube, "list", unanswered)
    with pytest.raises((ApplicationError, ApiError)) as raised:
        await run(ClusterObjects(kube, CLUSTER).drain, DrainClusterInput(cluster=CLUSTER))  # type: ignore[arg-type]
    assert getattr(raised.value, "type", None) == kind


@pytest.mark.parametrize("cluster", ["prod-2", "pro"])
async def test_a_worker_does_nothing_for_a_cluster_of_another_name(kube: FakeKube, cluster: str) -> None:
    with pytest.raises(ApplicationError, match="this worker serves prod"):
        await run(ClusterObjects(kube, CLUSTER).stop_buying, TeardownInput(cluster=cluster))  # type: ignore[arg-type]
    assert kube.calls == []


async def test_without_an_api_server_the_step_says_so_at_once() -> None:
    with pytest.raises(ApplicationError, match="no API server is at hand") as error:
        await run(ClusterObjects(None, CLUSTER).stop_buying, TeardownInput(cluster=CLUSTER))
    assert (error.value.non_retryable, error.value.type) == (True, ErrorType.NO_API_SERVER)
