"""What stands in the way of Provisioners and AWSNodeTemplates: objects of others, faults, policies, missing CRDs."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any, cast

import pytest

from activities.kubernetes.errors import ApiError, ForbiddenError, NotFoundError
from activities.kubernetes.resources import (
    AWSNODETEMPLATES,
    EC2NODECLASSES,
    MACHINES,
    NODEPOOLS,
    PROVISIONERS,
    Resource,
)
from tenon.apis.legacy.materialized_objects import made_of_provisioner
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL, edited
from tests.tenon.apis.legacy.older_objects import provisioner, template
from tests.worker.background import in_background
from tests.worker.cache.objects import claim
from tests.worker.legacy_cluster import Cluster, keeping, looked
from worker.cache.changes import Changes
from worker.cache.served import RECHECK_SECONDS
from worker.controllers.legacy.legacy_api import RESYNC
from worker.legacy.watches import LegacyObjects

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


@pytest.mark.parametrize("resource", [NODEPOOLS, EC2NODECLASSES], ids=lambda resource: str(resource.kind))
async def test_what_was_not_made_here_is_never_touched(resource: Resource) -> None:
    """A name that is taken is a condition and one event, and free again once the other goes."""
    name, body = ("old", NODEPOOL) if resource is NODEPOOLS else ("mine", EC2NODECLASS)
    theirs = {**body, "metadata": {"name": name}}
    provisioners = (PROVISIONERS, "old") if resource is NODEPOOLS else (AWSNODETEMPLATES, "mine")
    async with keeping((resource, theirs), (PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        await asyncio.sleep(3 * RESYNC)
        assert cluster.body(resource, name)["spec"] == theirs["spec"]
        assert cluster.condition(*provisioners, "Active")["reason"] == "NameTaken"
        assert (
            f"{resource.kind} {name} exists and was not created from it"
            in cluster.condition(*provisioners, "Active")["message"]
        )
        assert cluster.recorder.reasons() == ["NameTaken"]
        cluster.go(resource, name)
        await looked()
        assert cluster.condition(*provisioners, "Converted")["status"] == "True"
        assert cluster.body(resource, name)["metadata"]["ownerReferences"]


async def test_nc07_a_name_that_another_controllers_pool_has_is_taken() -> None:
    """The cache does not hold that pool; making one of its name would fail for ever without a word."""
    auto_mode = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
    theirs = {**edited(NODEPOOL, {"template/spec/nodeClassRef": auto_mode}), "metadata": {"name": "old"}}
    async with keeping((NODEPOOLS, theirs), (PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        await asyncio.sleep(3 * RESYNC)
        assert cluster.condition(PROVISIONERS, "old", "Active")["reason"] == "NameTaken"
        assert "belongs to another controller" in cluster.condition(PROVISIONERS, "old", "Active")["message"]


async def test_one_that_cannot_act_never_stops_the_others() -> None:
    """Neither one that is wrong, nor one that the API server does not take."""
    wrong = provisioner({"provider": {}}, name="a")
    async with keeping(
        (PROVISIONERS, wrong),
        (PROVISIONERS, provisioner(name="b")),
        (PROVISIONERS, provisioner(name="c")),
        (AWSNODETEMPLATES, template()),
        broken="b",
    ) as cluster:
        assert cluster.names(NODEPOOLS) == ["c"]
        assert cluster.condition(PROVISIONERS, "a", "Active")["reason"] == "Invalid"
        assert cluster.recorder.reasons() == ["Invalid"]
        cluster.broken = set()
        await asyncio.sleep(2 * RESYNC)
        assert cluster.names(NODEPOOLS) == ["b", "c"]


async def test_what_the_api_server_does_not_take_is_said_on_the_old_object() -> None:
    """An admission policy, say; it is tried again, for policies change."""
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        cluster.policy = ForbiddenError(403, "Forbidden", "pools need a cost centre")
        cluster.go(NODEPOOLS, "old")
        await looked()
        active = cluster.condition(PROVISIONERS, "old", "Active")
        assert (active["reason"], "cost centre" in active["message"]) == ("Refused", True)
        cluster.policy = None
        await asyncio.sleep(2 * RESYNC)
        assert cluster.names(NODEPOOLS) == ["old"]


async def test_what_cannot_be_converted_does_not_end_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what the API server stored before it knew better, nor a fault in the conversion itself."""

    def trips(body: dict[str, Any], *_: Any) -> Any:
        if body["metadata"]["name"] == "b":
            raise LookupError("nobody foresaw this")
        return made_of_provisioner(body, *_)

    monkeypatch.setattr("worker.legacy.conversion_cache.made_of_provisioner", trips)
    odd = {**provisioner(name="a"), "spec": {"providerRef": "text", "kubeletConfiguration": {"maxPods": 1}}}
    async with keeping(
        (PROVISIONERS, odd), (PROVISIONERS, provisioner(name="b")), (PROVISIONERS, provisioner(name="c"))
    ) as cluster:
        assert cluster.names(NODEPOOLS) == ["c"]
        assert "providerRef" in cluster.condition(PROVISIONERS, "a", "Active")["message"]
        assert "could not be converted" in cluster.condition(PROVISIONERS, "b", "Active")["message"]


async def test_a_provisioner_that_becomes_wrong_keeps_its_pool_as_it_was() -> None:
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        spec = cluster.body(NODEPOOLS, "old")["spec"]
        cluster.edit(PROVISIONERS, "old", {"providerRef": {"name": "mine"}, "labels": {"karpenter.sh/colour": "red"}})
        await looked()
        assert cluster.body(NODEPOOLS, "old")["spec"] == spec
        assert "stay unchanged" in cluster.condition(PROVISIONERS, "old", "Active")["message"]


async def test_a_recreated_object_waits_for_the_end_of_the_earlier_ones_objects() -> None:
    async with keeping((AWSNODETEMPLATES, template())) as cluster:
        leaving = copy.deepcopy(cluster.body(EC2NODECLASSES, "mine"))
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        cluster.put(EC2NODECLASSES, leaving)
        cluster.put(AWSNODETEMPLATES, template(uid="second"))
        await looked()
        active = cluster.condition(AWSNODETEMPLATES, "mine", "Active")
        assert (active["status"], active["reason"]) == ("False", "Waiting")
        cluster.go(EC2NODECLASSES, "mine")
        await looked()
        (owner,) = cluster.body(EC2NODECLASSES, "mine")["metadata"]["ownerReferences"]
        assert owner["uid"] == "second"


async def test_an_object_that_is_on_its_way_out_makes_nothing() -> None:
    async with keeping((AWSNODETEMPLATES, template(deletionTimestamp="2026-01-01T00:00:00Z"))) as cluster:
        assert cluster.names(EC2NODECLASSES) == []


async def test_leg20_machines_say_that_their_nodes_are_not_taken_over() -> None:
    body = {"metadata": {"name": "m"}, "spec": {}, "status": {"nodeName": "node-1"}}
    async with keeping((MACHINES, body)) as cluster:
        assert cluster.condition(MACHINES, "m", "Active")["reason"] == "NotTakenOver"
        assert "drain Node node-1" in cluster.condition(MACHINES, "m", "Active")["message"]


def changed(cluster: Cluster) -> None:
    """Something in the cluster that each round follows."""
    cluster.cache.publish(claim("x", node_name="", meta={"labels": {}}, colour=str(len(cluster.writes))))


@pytest.mark.parametrize("wrong", [False, True], ids=["sound", "wrong"])
async def test_crds_of_karpenters_own_age_are_written_to_once(wrong: bool, caplog: pytest.LogCaptureFixture) -> None:
    """AWSNodeTemplate's has no conditions: what the API server drops is not written, nor told, again and again."""
    body = template({"instanceProfile": None, "launchTemplate": "x", "amiFamily": "AL2"} if wrong else None)
    async with keeping() as cluster:
        cluster.dropped = {"AWSNodeTemplate": ("conditions",)}
        cluster.put(AWSNODETEMPLATES, body)
        await looked()
        written = len(cluster.writes)
        for _ in range(5):
            changed(cluster)
            await looked()
        assert len(cluster.writes) == written
        assert (
            len(cluster.recorder.events)
            == len([record for record in caplog.records if record.levelname == "WARNING"])
            == wrong
        )


async def test_owners_that_others_add_stay() -> None:
    """A fleet controller's reference next to ours: taken off, it would come again, and so for ever."""
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        fleet = {"apiVersion": "fleet/v1", "kind": "Bundle", "name": "b", "uid": "u-b"}
        body = copy.deepcopy(cluster.body(NODEPOOLS, "old"))
        (mine,) = body["metadata"]["ownerReferences"]
        body["metadata"]["ownerReferences"] = [fleet, mine]
        cluster.put(NODEPOOLS, body)
        written = len(cluster.writes)
        await looked()
        assert len(cluster.writes) == written
        cluster.edit(NODEPOOLS, "old", {**body["spec"], "weight": 7})
        await looked()
        assert cluster.body(NODEPOOLS, "old")["spec"] == body["spec"]
        assert cluster.body(NODEPOOLS, "old")["metadata"]["ownerReferences"] == [fleet, mine]


async def test_an_admission_policy_that_changes_objects_is_reported_once_and_accepted() -> None:
    def tags(resource: Resource, body: dict[str, Any]) -> None:
        if resource is EC2NODECLASSES:
            body["spec"].setdefault("tags", {})["cost-centre"] = "7"

    async with keeping() as cluster:
        cluster.admission = tags
        cluster.put(AWSNODETEMPLATES, template())
        await looked()
        assert cluster.recorder.reasons() == ["NotInStep"]
        written = len(cluster.writes)
        for _ in range(5):
            changed(cluster)
            await looked()
        assert len(cluster.writes) == written
        cluster.edit(AWSNODETEMPLATES, "mine", {**template()["spec"], "amiFamily": "Bottlerocket"})
        await looked()
        assert cluster.body(EC2NODECLASSES, "mine")["spec"]["amiSelectorTerms"] == [{"alias": "bottlerocket@latest"}]


YEARS_AGO, LATER, TODAY = "2023-05-01T00:00:00Z", "2024-05-01T00:00:00Z", "2026-01-01T00:00:00Z"


def made_later() -> dict[str, Any]:
    return {**NODEPOOL, "metadata": {"name": "default", "creationTimestamp": LATER}}


async def test_a_provisioner_that_an_upgrade_left_behind_launches_nothing_and_says_so() -> None:
    """Karpenter since 0.33 takes no notice of it, and nobody knows any more that it is there."""
    old = provisioner(creationTimestamp=YEARS_AGO)
    async with keeping((NODEPOOLS, made_later()), (PROVISIONERS, old), (AWSNODETEMPLATES, template())) as cluster:
        assert cluster.names(NODEPOOLS) == ["default"]
        active = cluster.condition(PROVISIONERS, "old", "Active")
        assert (active["status"], active["reason"]) == ("False", "LeftOver")
        assert "older than NodePool default" in active["message"]
        assert cluster.recorder.reasons() == ["LeftOver"]
        allowed = copy.deepcopy(cluster.body(PROVISIONERS, "old"))
        allowed["metadata"]["annotations"] = {"tenon.sh/act": "true"}
        cluster.put(PROVISIONERS, allowed)
        await looked()
        assert cluster.names(NODEPOOLS) == ["default", "old"]


async def test_a_provisioner_that_is_applied_next_to_nodepools_acts() -> None:
    """And one that acts goes on when a NodePool is made next to it, even if what stands for it is deleted once."""
    async with keeping(
        (PROVISIONERS, provisioner(creationTimestamp=YEARS_AGO)), (AWSNODETEMPLATES, template())
    ) as item:
        item.put(NODEPOOLS, made_later())
        item.go(NODEPOOLS, "old")
        await looked()
        assert item.names(NODEPOOLS) == ["default", "old"]
    today = provisioner(creationTimestamp=TODAY)
    async with keeping((NODEPOOLS, made_later()), (PROVISIONERS, today), (AWSNODETEMPLATES, template())) as other:
        assert other.names(NODEPOOLS) == ["default", "old"]


class Discovery:
    """An API server of which only is asked what it serves; it has no CRDs of older kinds until they are installed."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.requests: list[str] = []

    async def request(self, _method: str, path: str) -> bytes:
        self.requests.append(path)
        answer = self.answers.pop(0) if self.answers else NotFoundError(404, "NotFound", "no such API")
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()


async def test_without_their_crds_nothing_is_read_and_nothing_fails() -> None:
    """And while the API server does not say, nobody takes that for a no."""
    server = Discovery()
    server.answers = [ApiError(503, "ServiceUnavailable", "later"), {"resources": [{"name": "nodepools"}]}]
    objects = LegacyObjects(cast("Any", server), Changes())
    async with in_background(objects.run()):
        await objects.wait_known()
        requests = len(server.requests)
        await asyncio.sleep(3 * RECHECK_SECONDS)
        assert len(server.requests) > requests
        assert not objects.any_exists
        assert {path.rpartition("/")[0] for path in server.requests} == {
            "/apis/karpenter.sh",
            "/apis/karpenter.k8s.aws",
        }
