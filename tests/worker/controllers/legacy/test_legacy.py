"""What Provisioners and AWSNodeTemplates of a live cluster become, and how that is kept in step with them."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from activities.kubernetes.resources import (
    AWSNODETEMPLATES,
    EC2NODECLASSES,
    NODEPOOLS,
    PROVISIONERS,
    Resource,
)
from tests.tenon.apis.case import EC2NODECLASS
from tests.tenon.apis.legacy.older_objects import provisioner, template
from tests.worker.cache.objects import claim
from tests.worker.legacy_cluster import keeping, leading, looked
from worker.controllers.legacy.legacy_api import RESYNC

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


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
        cluster.cache.publish(claim("x", node_name="", meta={"labels": {}}))
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


async def test_an_edit_of_the_older_object_between_two_leaders_is_no_edit_to_undo() -> None:
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        spec = cluster.body(PROVISIONERS, "old")["spec"]
    cluster.edit(PROVISIONERS, "old", {**spec, "limits": {"resources": {"cpu": "1"}}})
    async with leading(cluster):
        assert cluster.body(NODEPOOLS, "old")["spec"]["limits"] == {"cpu": "1"}
        assert "KeptInStep" not in cluster.recorder.reasons()


async def test_edits_are_put_back_and_say_whom_to_edit() -> None:
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        spec = cluster.body(NODEPOOLS, "old")["spec"]
        cluster.edit(NODEPOOLS, "old", {**spec, "limits": {"cpu": "1"}})
        await looked()
        assert cluster.body(NODEPOOLS, "old")["spec"] == spec
        assert ("NodePool", "old", "KeptInStep") in [event[:3] for event in cluster.recorder.events]
        assert "Provisioner old" in cluster.recorder.events[-1][3]


async def test_a_change_of_the_provisioner_changes_its_pool() -> None:
    async with keeping((PROVISIONERS, provisioner()), (AWSNODETEMPLATES, template())) as cluster:
        uid = cluster.body(NODEPOOLS, "old")["metadata"]["uid"]
        cluster.edit(PROVISIONERS, "old", {"providerRef": {"name": "mine"}, "ttlSecondsAfterEmpty": 30})
        await looked()
        pool = cluster.body(NODEPOOLS, "old")
        assert pool["spec"]["disruption"]["consolidateAfter"] == "30s"
        assert pool["metadata"]["uid"] == uid
        assert cluster.recorder.reasons() == []


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


async def test_a_class_that_its_provisioner_left_belongs_to_the_template_of_that_name() -> None:
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


async def test_an_inline_provider_with_the_name_of_a_template_has_its_own_class() -> None:
    """LEG-06: both ran side by side; and the class stays when the template goes."""
    async with keeping(*inline_beside_a_template()) as cluster:
        assert cluster.names(EC2NODECLASSES) == ["old", "old-provider"]
        assert cluster.recorder.reasons() == []
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


async def test_an_inline_provider_next_to_a_foreign_class_gets_its_own_class() -> None:
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


async def test_what_an_old_object_does_not_become_any_more_is_named_on_it() -> None:
    """LEG-06: the class of its inline provider stays when it goes over to a template, and so do its nodes."""
    inline = provisioner({"providerRef": None, "provider": template()["spec"]})
    async with keeping((PROVISIONERS, inline), (AWSNODETEMPLATES, template())) as cluster:
        assert cluster.names(EC2NODECLASSES) == ["mine", "old"]
        assert "no use" not in cluster.condition(PROVISIONERS, "old", "Converted")["message"]
        cluster.edit(PROVISIONERS, "old", {"providerRef": {"name": "mine"}})
        await looked()
        assert (
            "EC2NodeClass old was created from it earlier and is no longer used: delete it"
            in (cluster.condition(PROVISIONERS, "old", "Converted")["message"])
        )
        cluster.go(EC2NODECLASSES, "old")
        await looked()
        assert "no use" not in cluster.condition(PROVISIONERS, "old", "Converted")["message"]
