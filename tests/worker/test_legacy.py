"""Provisioners and AWSNodeTemplates of a live cluster, by the worker's keeper; the API server is played from memory."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from activities.kubernetes.errors import ApiError, Conflict, Forbidden, NotFound
from activities.kubernetes.resources import (
    AWSNODETEMPLATES,
    EC2NODECLASSES,
    MACHINES,
    NODEPOOLS,
    PROVISIONERS,
    Resource,
)
from tenon.apis.legacy.awsnodetemplate import Defaults
from tenon.apis.legacy.materialising import made_of_provisioner
from tests.apis.case import EC2NODECLASS, NODEPOOL
from tests.apis.legacy.test_materialising import patched, provisioner, template
from tests.cache.objects import claim
from tests.lifecycle_k8s.fake_kube import Recorder
from tests.worker.test_bridge import MOMENT, Cache
from worker.cache.changes import Changes
from worker.cache.decode import decode_object
from worker.cache.served import LOOK_AGAIN
from worker.cache.table import Table
from worker.legacy.keeper import RESYNC, LegacyKeeper
from worker.legacy.watching import LegacyObjects

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


class Known(LegacyObjects):
    """Old objects that nobody has to read first."""

    async def wait_known(self) -> None:
        return


class Cluster:
    """An API server whose objects are in the tables at once, as if watches took no time."""

    def __init__(self) -> None:
        self.cache, self.told = Cache(), Recorder()
        self.old = Known(cast("Any", None), self.cache.changes)
        self.tables: dict[str, Table[Any]] = {
            NODEPOOLS.plural: self.cache.pools,
            EC2NODECLASSES.plural: self.cache.nodeclasses,
            PROVISIONERS.plural: self.old.provisioners,
            AWSNODETEMPLATES.plural: self.old.templates,
            MACHINES.plural: self.old.machines,
        }
        self.writes: list[tuple[str, str, str]] = []
        self.broken: set[str] = set()
        self.policy: ApiError | None = None
        self.dropped: dict[str, tuple[str, ...]] = {}
        """By kind: the parts of its status that its CRD does not know."""
        self.admission: Callable[[Resource, dict[str, Any]], None] = lambda _resource, _body: None
        """Changes a body on its way in."""
        self.fresh: dict[str, dict[str, Any]] = {}
        """What is read by name and no watch has told yet."""
        self._numbers = itertools.count(1)

    def put(self, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
        stored = copy.deepcopy(body)
        metadata = stored["metadata"]
        metadata["resourceVersion"] = str(next(self._numbers))
        metadata.setdefault("uid", f"uid-{metadata['resourceVersion']}")
        metadata.setdefault("generation", 1)
        self.tables[resource.plural].on_event(metadata["name"], decode_object(json.dumps(stored).encode()))
        return stored

    def edit(self, resource: Resource, name: str, spec: dict[str, Any]) -> None:
        """As a user would, who knows nothing of versions."""
        body = copy.deepcopy(self.body(resource, name))
        body["spec"] = spec
        body["metadata"]["generation"] += 1
        self.put(resource, body)

    def body(self, resource: Resource, name: str) -> dict[str, Any]:
        found = self.tables[resource.plural].get(name)
        assert found is not None, f"no {resource.kind} {name}"
        return dict(found.body)

    def names(self, resource: Resource) -> list[str]:
        return sorted(record.name for record in self.tables[resource.plural])

    def condition(self, resource: Resource, name: str, kind: str) -> dict[str, Any]:
        found = self.tables[resource.plural].get(name)
        assert found is not None
        return dict(found.condition(kind))

    def go(self, resource: Resource, name: str) -> None:
        """Deleted, as the garbage collector or a user does."""
        self.tables[resource.plural].on_event(name, None)

    async def create(self, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if self.policy is not None:
            raise self.policy
        if name in self.broken:
            raise ApiError(500, "InternalError", "etcd is away")
        if name in self.tables[resource.plural]:
            raise Conflict(409, "AlreadyExists", "it is there")
        self.writes.append(("create", resource.kind, name))
        stored = copy.deepcopy(body)
        self.admission(resource, stored)
        return self.put(resource, stored)

    async def get(self, resource: Resource, name: str) -> dict[str, Any] | None:
        found = self.tables[resource.plural].get(name)
        return copy.deepcopy(self.fresh.get(name) or (dict(found.body) if found is not None else None))

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, subresource: str = "", kind: str = "merge"
    ) -> dict[str, Any]:
        if name in self.broken:
            raise ApiError(500, "InternalError", "etcd is away")
        self.writes.append((f"patch {subresource or kind}", resource.kind, name))
        body = copy.deepcopy(self.body(resource, name))
        if kind == "json":
            body = patched(body, patch)
        else:
            for part, fields in patch.items():
                dropped = self.dropped.get(resource.kind, ())
                body[part] = {**body.get(part, {}), **{k: v for k, v in fields.items() if k not in dropped}}
        self.admission(resource, body)
        if body == self.body(resource, name):
            return body  # the version stays, and no watch tells of it
        return self.put(resource, body)


@contextlib.asynccontextmanager
async def keeping(*old: tuple[Resource, dict[str, Any]], broken: str = "") -> AsyncIterator[Cluster]:
    """A keeper that has looked at these objects."""
    cluster = Cluster()
    cluster.broken = {broken}
    for resource, body in old:
        cluster.put(resource, body)

    keeper = LegacyKeeper(
        cast("Any", cluster), cast("Any", cluster.told), cluster.cache, cluster.old, Defaults(cluster="c")
    )
    task = asyncio.create_task(keeper.run())
    await looked()
    try:
        yield cluster
        assert not task.done(), task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def looked() -> None:
    """After the keeper has come to rest."""
    await asyncio.sleep(10 * MOMENT)


READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


async def test_a_provisioner_and_its_template_are_a_pool_and_a_class() -> None:
    """LEG-06, LEG-12: and once they stand, nothing is written until something changes."""
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        assert cluster.names(NODEPOOLS) == ["old"]
        assert cluster.names(EC2NODECLASSES) == ["mine"]
        assert "NodePool old" in cluster.condition(PROVISIONERS, "old", "Converted")["message"]
        assert cluster.condition(PROVISIONERS, "old", "Active")["status"] == "Unknown"
        cluster.put(NODEPOOLS, {**cluster.body(NODEPOOLS, "old"), "status": {"conditions": [READY]}})
        await looked()
        assert cluster.condition(PROVISIONERS, "old", "Active")["status"] == "True"
        written = len(cluster.writes)
        cluster.cache.tell(claim("x", node_name="", meta={"labels": {}}))
        await asyncio.sleep(3 * RESYNC)
        assert len(cluster.writes) == written


@pytest.mark.parametrize("edits", [{}, {"kubeletConfiguration": {"maxPods": 5}}], ids=["plain", "kubelet"])
async def test_a_template_that_comes_later_is_seen(edits: dict[str, Any]) -> None:
    """LEG-05, LEG-06: one without a name of its template waits for the one called default."""
    async with keeping((PROVISIONERS, provisioner({"providerRef": None, **edits}))) as cluster:
        assert "AWSNodeTemplate default" in cluster.condition(PROVISIONERS, "old", "Converted")["message"]
        cluster.put(AWSNODETEMPLATES, template(name="default"))
        await looked()
        assert "AWSNodeTemplate default" not in cluster.condition(PROVISIONERS, "old", "Converted")["message"]
        assert cluster.names(NODEPOOLS) == ["old"]
        assert cluster.names(EC2NODECLASSES) == (["default", "default-old"] if edits else ["default"])


async def test_edits_are_put_back_and_say_whom_to_edit() -> None:
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        spec = cluster.body(NODEPOOLS, "old")["spec"]
        cluster.edit(NODEPOOLS, "old", {**spec, "limits": {"cpu": "1"}})
        await looked()
        assert cluster.body(NODEPOOLS, "old")["spec"] == spec
        assert ("NodePool", "old", "KeptInStep") in [event[:3] for event in cluster.told.events]
        assert "Provisioner old" in cluster.told.events[-1][3]


async def test_a_change_of_the_provisioner_changes_its_pool() -> None:
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        uid = cluster.body(NODEPOOLS, "old")["metadata"]["uid"]
        cluster.edit(PROVISIONERS, "old", {"providerRef": {"name": "mine"}, "ttlSecondsAfterEmpty": 30})
        await looked()
        pool = cluster.body(NODEPOOLS, "old")
        assert pool["spec"]["disruption"]["consolidateAfter"] == "30s"
        assert pool["metadata"]["uid"] == uid
        assert cluster.told.reasons() == []


async def test_what_was_let_go_of_is_never_owned_again() -> None:
    """`kubectl delete --cascade=orphan`: with a late owner the pool would be collected, and its nodes with it."""
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        orphan = copy.deepcopy(cluster.body(NODEPOOLS, "old"))
        orphan["metadata"]["ownerReferences"] = []
        orphan["spec"]["limits"] = {"cpu": "1"}
        cluster.fresh["old"] = orphan  # the watch is behind: the cache still has it as ours, edited by a user
        cluster.edit(NODEPOOLS, "old", {**orphan["spec"], "weight": 7})
        await looked()
        assert "patch json" not in [write[0] for write in cluster.writes]
        cluster.put(NODEPOOLS, orphan)
        await looked()
        assert cluster.body(NODEPOOLS, "old")["metadata"]["ownerReferences"] == []
        assert cluster.condition(PROVISIONERS, "old", "Active")["reason"] == "NameTaken"


@pytest.mark.parametrize("resource", [NODEPOOLS, EC2NODECLASSES], ids=lambda resource: str(resource.kind))
async def test_what_was_not_made_here_is_never_touched(resource: Resource) -> None:
    """A name that is taken is a condition and one event, and free again once the other goes."""
    name, body = ("old", NODEPOOL) if resource is NODEPOOLS else ("mine", EC2NODECLASS)
    theirs = {**body, "metadata": {"name": name}}
    named = (PROVISIONERS, "old") if resource is NODEPOOLS else (AWSNODETEMPLATES, "mine")
    async with keeping((resource, theirs), (PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        await asyncio.sleep(3 * RESYNC)
        assert cluster.body(resource, name)["spec"] == theirs["spec"]
        assert cluster.condition(*named, "Active")["reason"] == "NameTaken"
        assert f"{resource.kind} {name} is there" in cluster.condition(*named, "Active")["message"]
        assert cluster.told.reasons() == ["NameTaken"]
        cluster.go(resource, name)
        await looked()
        assert cluster.condition(*named, "Converted")["status"] == "True"
        assert cluster.body(resource, name)["metadata"]["ownerReferences"]


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
        assert cluster.told.reasons() == ["Invalid"]
        cluster.broken = set()
        await asyncio.sleep(2 * RESYNC)
        assert cluster.names(NODEPOOLS) == ["b", "c"]


async def test_what_the_api_server_does_not_take_is_said_on_the_old_object() -> None:
    """An admission policy, say; it is tried again, for policies change."""
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        cluster.policy = Forbidden(403, "Forbidden", "pools need a cost centre")
        cluster.go(NODEPOOLS, "old")
        await looked()
        active = cluster.condition(PROVISIONERS, "old", "Active")
        assert (active["reason"], "cost centre" in active["message"]) == ("Refused", True)
        cluster.policy = None
        await asyncio.sleep(2 * RESYNC)
        assert cluster.names(NODEPOOLS) == ["old"]


async def test_what_cannot_even_be_converted_does_not_end_the_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what the API server stored before it knew better, nor a fault in the conversion itself."""

    def trips(body: dict[str, Any], *_: Any) -> Any:
        if body["metadata"]["name"] == "b":
            raise LookupError("nobody foresaw this")
        return made_of_provisioner(body, *_)

    monkeypatch.setattr("worker.legacy.becoming.made_of_provisioner", trips)
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
        assert "stays as it was" in cluster.condition(PROVISIONERS, "old", "Active")["message"]


async def test_a_class_that_its_provisioner_has_left_goes_over_to_the_template_of_that_name() -> None:
    """LEG-06: from an inline provider to an AWSNodeTemplate of the same name, which is how people moved."""
    inline = provisioner({"providerRef": None, "provider": template()["spec"]})
    async with keeping((PROVISIONERS, inline)) as cluster:
        assert cluster.names(EC2NODECLASSES) == ["old"]
        cluster.put(AWSNODETEMPLATES, {**template(), "metadata": {"name": "old", "uid": "u"}})
        await looked()
        assert cluster.condition(AWSNODETEMPLATES, "old", "Active")["reason"] == "NameTaken"
        assert cluster.condition(PROVISIONERS, "old", "Converted")["status"] == "True"
        cluster.edit(PROVISIONERS, "old", {"providerRef": {"name": "old"}})
        await looked()
        (owner,) = cluster.body(EC2NODECLASSES, "old")["metadata"]["ownerReferences"]
        assert owner["kind"] == "AWSNodeTemplate"
        assert cluster.condition(AWSNODETEMPLATES, "old", "Converted")["status"] == "True"


def inline_beside_a_template() -> tuple[tuple[Resource, dict[str, Any]], ...]:
    inside = {**template()["spec"], "subnetSelector": {"inside": "yes"}}
    return (
        (PROVISIONERS, provisioner({"providerRef": None, "provider": inside})),
        (AWSNODETEMPLATES, template(name="old")),
    )


async def test_an_inline_provider_beside_a_template_of_its_name_has_a_class_of_its_own() -> None:
    """LEG-06: both ran side by side; and the class stays when the template goes."""
    async with keeping(*inline_beside_a_template()) as cluster:
        assert cluster.names(EC2NODECLASSES) == ["old", "old-provider"]
        assert cluster.told.reasons() == []
        pool = cluster.body(NODEPOOLS, "old")
        assert pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "old-provider"
        inside = cluster.body(EC2NODECLASSES, "old-provider")["spec"]
        assert inside["subnetSelectorTerms"] == [{"tags": {"inside": "yes"}}]
        assert "EC2NodeClass old-provider" in cluster.condition(PROVISIONERS, "old", "Converted")["message"]
        cluster.go(AWSNODETEMPLATES, "old")
        cluster.go(EC2NODECLASSES, "old")
        await looked()
        assert cluster.names(EC2NODECLASSES) == ["old-provider"]
        assert cluster.body(NODEPOOLS, "old") == pool


async def test_an_inline_provider_beside_the_class_of_somebody_else_has_a_class_of_its_own() -> None:
    """LEG-06: and keeps it when that class goes."""
    theirs = {**EC2NODECLASS, "metadata": {"name": "old"}}
    (inline, _) = inline_beside_a_template()
    async with keeping((EC2NODECLASSES, theirs), inline) as cluster:
        assert cluster.names(EC2NODECLASSES) == ["old", "old-provider"]
        assert cluster.body(EC2NODECLASSES, "old")["spec"] == theirs["spec"]
        cluster.go(EC2NODECLASSES, "old")
        await looked()
        assert cluster.names(EC2NODECLASSES) == ["old-provider"]


async def test_a_class_of_an_inline_provider_keeps_its_name_until_it_is_deleted() -> None:
    """LEG-06: a template that comes later waits for the name; nodes of the class are not to move meanwhile."""
    inline, beside = inline_beside_a_template()
    async with keeping(inline) as cluster:
        cluster.put(*beside)
        await looked()
        assert cluster.names(EC2NODECLASSES) == ["old"]
        assert cluster.body(NODEPOOLS, "old")["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "old"
        assert cluster.condition(AWSNODETEMPLATES, "old", "Active")["reason"] == "NameTaken"
        cluster.go(EC2NODECLASSES, "old")
        await looked()
        (owner,) = cluster.body(EC2NODECLASSES, "old")["metadata"]["ownerReferences"]
        assert owner["kind"] == "AWSNodeTemplate"
        assert cluster.body(NODEPOOLS, "old")["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "old-provider"
        assert cluster.names(EC2NODECLASSES) == ["old", "old-provider"]


async def test_one_that_is_made_anew_waits_for_the_end_of_what_stood_for_the_earlier_one() -> None:
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
    cluster.cache.tell(claim("x", node_name="", meta={"labels": {}}, colour=str(len(cluster.writes))))


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
        assert len(cluster.told.events) == len([one for one in caplog.records if one.levelname == "WARNING"]) == wrong


async def test_owners_that_others_add_stay() -> None:
    """A fleet controller's reference beside ours: taken off, it would come again, and so for ever."""
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


async def test_an_admission_policy_that_changes_what_is_written_is_told_of_once_and_not_fought() -> None:
    def tags(resource: Resource, body: dict[str, Any]) -> None:
        if resource is EC2NODECLASSES:
            body["spec"].setdefault("tags", {})["cost-centre"] = "7"

    async with keeping() as cluster:
        cluster.admission = tags
        cluster.put(AWSNODETEMPLATES, template())
        await looked()
        assert cluster.told.reasons() == ["NotInStep"]
        written = len(cluster.writes)
        for _ in range(5):
            changed(cluster)
            await looked()
        assert len(cluster.writes) == written
        cluster.edit(AWSNODETEMPLATES, "mine", {**template()["spec"], "amiFamily": "Bottlerocket"})
        await looked()
        assert cluster.body(EC2NODECLASSES, "mine")["spec"]["amiSelectorTerms"] == [{"alias": "bottlerocket@latest"}]


async def test_what_an_old_object_does_not_become_any_more_is_named_on_it() -> None:
    """LEG-06: the class of its inline provider stays when it goes over to a template, and so do its nodes."""
    inline = provisioner({"providerRef": None, "provider": template()["spec"]})
    async with keeping((PROVISIONERS, inline), (AWSNODETEMPLATES, template())) as cluster:
        assert cluster.names(EC2NODECLASSES) == ["mine", "old"]
        assert "no use" not in cluster.condition(PROVISIONERS, "old", "Converted")["message"]
        cluster.edit(PROVISIONERS, "old", {"providerRef": {"name": "mine"}})
        await looked()
        assert (
            "EC2NodeClass old was made from it earlier and is of no use any more: delete it"
            in (cluster.condition(PROVISIONERS, "old", "Converted")["message"])
        )
        cluster.go(EC2NODECLASSES, "old")
        await looked()
        assert "no use" not in cluster.condition(PROVISIONERS, "old", "Converted")["message"]


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
        assert cluster.told.reasons() == ["LeftOver"]
        allowed = copy.deepcopy(cluster.body(PROVISIONERS, "old"))
        allowed["metadata"]["annotations"] = {"tenon.sh/act": "true"}
        cluster.put(PROVISIONERS, allowed)
        await looked()
        assert cluster.names(NODEPOOLS) == ["default", "old"]


async def test_a_provisioner_that_is_applied_beside_nodepools_acts() -> None:
    """And one that acts goes on when a NodePool is made beside it, even if what stands for it is deleted once."""
    async with keeping((PROVISIONERS, provisioner(creationTimestamp=YEARS_AGO)), (AWSNODETEMPLATES, template())) as one:
        one.put(NODEPOOLS, made_later())
        one.go(NODEPOOLS, "old")
        await looked()
        assert one.names(NODEPOOLS) == ["default", "old"]
    today = provisioner(creationTimestamp=TODAY)
    async with keeping((NODEPOOLS, made_later()), (PROVISIONERS, today), (AWSNODETEMPLATES, template())) as other:
        assert other.names(NODEPOOLS) == ["default", "old"]


class Discovery:
    """An API server of which only is asked what it serves; it has no CRDs of older kinds until they are installed."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[str] = []

    async def request(self, _method: str, path: str) -> bytes:
        self.asked.append(path)
        answer = self.answers.pop(0) if self.answers else NotFound(404, "NotFound", "no such API")
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()


async def test_without_their_crds_nothing_is_read_and_nothing_fails() -> None:
    """And while the API server does not say, nobody takes that for a no."""
    server = Discovery()
    server.answers = [ApiError(503, "ServiceUnavailable", "later"), {"resources": [{"name": "nodepools"}]}]
    objects = LegacyObjects(cast("Any", server), Changes())
    task = asyncio.create_task(objects.run())
    try:
        await objects.wait_known()
        asked = len(server.asked)
        await asyncio.sleep(3 * LOOK_AGAIN)
        assert len(server.asked) > asked
        assert not objects.there
        assert not task.done()
        assert {path.rpartition("/")[0] for path in server.asked} == {"/apis/karpenter.sh", "/apis/karpenter.k8s.aws"}
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
