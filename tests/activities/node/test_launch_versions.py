"""A launch of a NodePool under a rollout: made from the recorded version, whatever the EC2NodeClass says now."""

from __future__ import annotations

from typing import Any, cast

from activities.kubernetes.resources import CONTROLLERREVISIONS, EC2NODECLASSES, NODECLAIMS, NODEPOOLS
from activities.node.launch_preparation import CLASS_UNKNOWN
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import ec2nodeclass_hashes
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tenon.messages.launch import LaunchInput, PrepareLaunchInput
from tenon.rollout.revisions import Revision, revision_of, to_object
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import REF, World, claim

REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
POOL = {
    "metadata": {"name": "web", "uid": "uid-web", "generation": 1},
    "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": REFERENCE}}},
}


class Remembering(Seller):
    """Remembers the classes that launches are prepared from."""

    def __init__(self) -> None:
        self.classes: list[EC2NodeClass] = []

    def prepare_launch(self, claim: Any, node_class: EC2NodeClass, *arguments: Any) -> Any:
        self.classes.append(node_class)
        return super().prepare_launch(claim, node_class, *arguments)


def version(**spec: Any) -> Revision:
    pool, _ = parse(NodePool, POOL)
    ec2_class, _ = parse(EC2NodeClass, node_class(**spec))
    assert pool is not None
    assert ec2_class is not None
    return revision_of(pool, ec2_class)


def unlaunched(revision: Revision, *, recorded: bool) -> tuple[World, Launching, Remembering]:
    world, waiting, seller = World(), claim(nodeClassRef=REFERENCE), Remembering()
    waiting["status"] = {}
    waiting["metadata"].setdefault("labels", {})[labels.NODEPOOL] = "web"
    waiting["metadata"].setdefault("annotations", {})[labels.REVISION] = revision.digest
    world.kube.add(NODECLAIMS, waiting)
    world.kube.add(EC2NODECLASSES, node_class(userData="echo new"))
    world.kube.add(NODEPOOLS, POOL)
    if recorded:
        world.kube.add(CONTROLLERREVISIONS, to_object(revision, "tenon", 1))
    return world, Launching(world.kube, world.recorder, cast("Any", seller), world.clock), seller


async def test_a_launch_has_the_version_that_its_nodeclaim_names() -> None:
    old = version(userData="echo old")
    world, launching, seller = unlaunched(old, recorded=True)
    prepared = await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1))
    assert [node_class.spec.user_data for node_class in seller.classes] == ["echo old"]
    assert prepared.request is not None
    await launching.launch(LaunchInput(claim=REF, request=prepared.request))
    parsed, _ = parse(EC2NodeClass, node_class(userData="echo old"))
    assert parsed is not None
    expected = ec2nodeclass_hashes(parsed, seller.cluster.ca_bundle)
    assert expected.items() <= world.claim["metadata"]["annotations"].items(), "drift compares with its own version"


async def test_a_version_that_is_not_recorded_yet_is_launched_if_the_specs_still_make_it() -> None:
    _, launching, seller = unlaunched(version(userData="echo new"), recorded=False)
    prepared = await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1))
    assert prepared.request is not None
    assert [node_class.spec.user_data for node_class in seller.classes] == ["echo new"]


async def test_a_version_that_is_recorded_nowhere_is_waited_for() -> None:
    """Nothing else may be launched in its place: the newest version may be one that failed."""
    _, launching, seller = unlaunched(version(userData="echo old"), recorded=False)
    prepared = await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1))
    assert prepared.request is None
    assert prepared.waits is not None
    assert prepared.waits.reason == CLASS_UNKNOWN
    assert "ControllerRevision web-" in prepared.waits.message
    assert seller.classes == []
