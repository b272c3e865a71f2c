"""The fresh look before a sweep acts on a finding: what it saw in its lists may be over (ACT-04)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import pytest

from activities.garbage_collection.sweep_actions import SweepActions
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODES
from tenon.apis import labels
from tenon.ec2.families.cluster import Cluster
from tenon.garbage_collection.decide import GRACES
from tenon.garbage_collection.facts import Observations, ObservedNode
from tenon.garbage_collection.findings import Finding, FindingKind
from tenon.messages.node import Poke
from tests.activities.garbage_collection.lost import PagedKube
from tests.activities.node.fake_kube import START, stamp
from tests.activities.node.seller import node_class
from tests.activities.node.world import REF, claim, live, node

INSTANCE = "i-1"


class Ec2:
    """An EC2 whose one instance has a state. It records what is ended."""

    cluster = Cluster("sandbox", "us-west-2")

    def __init__(self, state: str | None = "running") -> None:
        self.state = state
        self.ended: list[str] = []
        self.tagged = True

    def instance_state(self, instance_id: str) -> str | None:
        return self.state

    def terminate(self, instance_id: str) -> str:
        self.ended.append(instance_id)
        return "shutting-down"

    def name_instance(self, *_: str) -> bool:
        return self.tagged

    def delete_launch_template(self, template: Any) -> bool:
        self.ended.append(template.name)
        return True


class Workflows:
    """The workflows of nodes, by claim."""

    def __init__(self, *open_: str) -> None:
        self.open = set(open_)
        self.poked: list[tuple[str, Poke]] = []
        self.started: list[str] = []

    async def is_open(self, name: str) -> bool:
        return name in self.open

    async def poke(self, name: str, poke: Poke) -> bool:
        self.poked.append((name, poke))
        return True

    async def start(self, name: str, uid: str, pool: str) -> None:
        self.started.append(name)


class Swept:
    """A cluster, and one finding of a sweep over it."""

    def __init__(self, state: str | None = "running", *opened: str) -> None:
        self.kube: Any = PagedKube()
        self.ec2 = Ec2(state)
        self.workflows = Workflows(*opened)

    def put(self, body: Mapping[str, Any]) -> Swept:
        self.kube.add(NODECLAIMS if "providerID" not in body["spec"] else NODES, dict(body))
        return self

    async def act(self, kind: FindingKind, **fields: Any) -> bool:
        actions = SweepActions(self.kube, cast("Any", self.ec2), cast("Any", self.workflows), GRACES)
        observations = fields.pop("observations", Observations(now=START))
        fields = {"claim": REF.name, "instance_id": INSTANCE, **fields}
        return await actions.act(Finding(kind, fields["claim"], START, **fields), observations)


def ready(value: str) -> dict[str, Any]:
    body = live(node())
    body["status"]["conditions"][0]["status"] = value
    return body


def changed(body: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    body["metadata"] |= metadata
    return body


# --- claims without an instance ---


@pytest.mark.parametrize("state", [None, "terminated"])
async def test_act04_a_node_that_became_ready_since_the_list_keeps_its_claim(state: str | None) -> None:
    swept = Swept(state, REF.name).put(live(claim())).put(ready("True"))
    assert not await swept.act(FindingKind.CLAIM_WITHOUT_INSTANCE, uid=REF.uid)
    assert swept.workflows.poked == []


@pytest.mark.parametrize("state", [None, "terminated"])
async def test_act04_a_node_that_is_not_ready_and_has_no_instance_leaves(state: str | None) -> None:
    for node_objects in ([ready("Unknown")], []):
        swept = Swept(state, REF.name).put(live(claim()))
        for node_object in node_objects:
            swept.put(node_object)
        assert await swept.act(FindingKind.CLAIM_WITHOUT_INSTANCE, uid=REF.uid)
        assert swept.workflows.poked == [(REF.name, Poke(instance_gone=True, reason="instance gone"))]


@pytest.mark.parametrize("state", ["pending", "running", "shutting-down", "stopped"])
async def test_a_claim_keeps_its_node_if_ec2_shows_the_instance_after_all(state: str) -> None:
    """One that shuts down still gives its pods their grace period."""
    swept = Swept(state, REF.name).put(live(claim()))
    assert not await swept.act(FindingKind.CLAIM_WITHOUT_INSTANCE, uid=REF.uid)
    assert swept.workflows.poked == []


async def test_a_claim_that_terminates_its_instance_is_not_told_that_it_is_gone() -> None:
    body = live(claim())
    body["status"]["conditions"].append({"type": "InstanceTerminating", "status": "True"})
    assert not await Swept(None, REF.name).put(body).act(FindingKind.CLAIM_WITHOUT_INSTANCE, uid=REF.uid)


async def test_another_claim_of_the_same_name_is_not_told_that_its_instance_is_gone() -> None:
    swept = Swept(None, REF.name).put(changed(live(claim()), uid="another"))
    assert not await swept.act(FindingKind.CLAIM_WITHOUT_INSTANCE, uid=REF.uid)


# --- claims without a Node ---


async def test_a_claim_without_a_node_leaves_with_its_finalizer_and_a_reason() -> None:
    late = changed(node(), creationTimestamp=stamp(START + timedelta(hours=1)))
    for node_objects in ([], [late]):
        swept = Swept().put(changed(live(claim()), finalizers=[]))
        for node_object in node_objects:
            swept.put(node_object)
        assert await swept.act(FindingKind.CLAIM_WITHOUT_NODE, uid=REF.uid, node_name="node-1")
        metadata = (await swept.kube.get(NODECLAIMS, REF.name))["metadata"]
        assert metadata["deletionTimestamp"]
        assert metadata["finalizers"] == [labels.TERMINATION_FINALIZER]
        assert "the Node was deleted" in metadata["annotations"][labels.DELETED_BECAUSE]


async def test_a_claim_whose_node_is_there_after_all_stays() -> None:
    present = changed(live(node()), creationTimestamp=stamp(START + timedelta(hours=1)))
    for swept in (
        Swept().put(live(claim())).put(present),
        Swept().put(changed(live(claim()), uid="another")),
        Swept().put(changed(live(claim()), deletionTimestamp=stamp(START))),
        Swept(),
    ):
        assert not await swept.act(FindingKind.CLAIM_WITHOUT_NODE, uid=REF.uid, node_name="node-1")


# --- instances without a claim ---


async def test_an_instance_whose_claim_was_written_since_the_list_stays() -> None:
    swept = Swept().put(live(claim()))
    assert not await swept.act(FindingKind.INSTANCE_WITHOUT_CLAIM)
    assert swept.ec2.ended == []


@pytest.mark.parametrize("provider_id", ["", "aws:///us-west-2a/i-2"])
async def test_an_instance_of_a_claim_with_another_instance_ends(provider_id: str) -> None:
    """But not that of a claim that has none yet."""
    body = claim()
    body["status"]["providerID"] = provider_id
    swept = Swept().put(body)
    assert await swept.act(FindingKind.INSTANCE_WITHOUT_CLAIM) is bool(provider_id)
    assert swept.ec2.ended == [INSTANCE] * bool(provider_id)


async def test_an_instance_of_another_controllers_claim_stays() -> None:
    body = claim(nodeClassRef={"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"})
    body["status"]["providerID"] = "aws:///us-west-2a/i-2"
    assert not await Swept().put(body).act(FindingKind.INSTANCE_WITHOUT_CLAIM)


async def test_an_instance_with_an_open_workflow_is_left_to_it_for_half_an_hour() -> None:
    for minutes, ends in ((29, False), (30, True)):
        swept = Swept("running", REF.name)
        observations = Observations(now=START, left_since={INSTANCE: START - timedelta(minutes=minutes)})
        assert await swept.act(FindingKind.INSTANCE_WITHOUT_CLAIM, observations=observations) is ends
        assert swept.ec2.ended == [INSTANCE] * ends


async def test_an_instance_that_has_ended_since_the_list_is_not_ended_again() -> None:
    swept = Swept("shutting-down")
    assert not await swept.act(FindingKind.INSTANCE_WITHOUT_CLAIM)
    assert swept.ec2.ended == []


@pytest.mark.parametrize(("group", "own"), [("7-0", {}), ("", {labels.LAUNCH_GROUP: "9-9/0/2"})])
async def test_an_instance_without_a_claims_tag_stays_while_a_claim_of_its_group_or_pool_launches(
    group: str, own: dict[str, str]
) -> None:
    body = changed(claim(), annotations=own or {labels.LAUNCH_GROUP: f"{group}/0/2"})
    body["status"] = {}
    swept = Swept().put(body)
    assert not await swept.act(FindingKind.INSTANCE_WITHOUT_CLAIM, claim="", pool="web", group=group)
    assert await swept.act(FindingKind.INSTANCE_WITHOUT_CLAIM, claim="", pool="other", group="8-0")
    assert swept.ec2.ended == [INSTANCE]


async def test_an_instance_without_a_claims_tag_stays_if_a_claim_of_any_pool_names_it() -> None:
    swept = Swept().put(live(claim()))
    assert not await swept.act(FindingKind.INSTANCE_WITHOUT_CLAIM, claim="", pool="other")


async def test_an_instance_without_a_claims_tag_ends_once_all_claims_of_its_pool_have_others() -> None:
    """A NodePool has nodes at nearly all times. Its lost instances would otherwise never end."""
    body = live(claim())
    body["status"]["providerID"] = "aws:///us-west-2a/i-2"
    swept = Swept().put(body)
    assert await swept.act(FindingKind.INSTANCE_WITHOUT_CLAIM, claim="", pool="web")
    assert swept.ec2.ended == [INSTANCE]


async def test_the_node_of_an_ended_instance_is_freed_and_no_other() -> None:
    swept = Swept().put(changed(live(node()), uid="n-1"))
    other = changed(live(node()), uid="n-2", name="node-2")
    other["spec"]["providerID"] = "aws:///us-west-2a/i-2"
    swept.put(other)
    nodes = tuple(
        ObservedNode(name, uid, START, provider_id=provider_id)
        for name, uid, provider_id in (
            ("node-1", "n-1", "aws:///us-west-2a/i-1"),
            ("node-2", "n-2", "aws:///us-west-2a/i-2"),
        )
    )
    assert await swept.act(FindingKind.INSTANCE_WITHOUT_CLAIM, observations=Observations(now=START, nodes=nodes))
    assert swept.kube.names(NODES) == ["node-2"]


# --- workflows, Nodes, templates, tags ---


async def test_a_workflow_is_started_once_and_only_for_a_claim_that_exists() -> None:
    for opened, exists, starts in ((True, True, False), (False, False, False), (False, True, True)):
        swept = Swept("running", *([REF.name] if opened else []))
        if exists:
            swept.put(live(claim()))
        assert await swept.act(FindingKind.CLAIM_WITHOUT_WORKFLOW, uid=REF.uid) is starts
        assert swept.workflows.started == [REF.name] * starts


async def test_a_workflow_is_told_that_its_claim_is_gone_only_if_it_is() -> None:
    for exists in (True, False):
        swept = Swept("running", REF.name)
        if exists:
            swept.put(live(claim()))
        assert await swept.act(FindingKind.WORKFLOW_WITHOUT_CLAIM, uid=REF.uid) is not exists
        assert len(swept.workflows.poked) == (not exists)


@pytest.mark.parametrize("keeps", ["claim", "workflow", "instance", "nothing"])
async def test_a_node_is_deleted_only_without_claim_workflow_and_instance(keeps: str) -> None:
    swept = Swept("running" if keeps == "instance" else None, *([REF.name] if keeps == "workflow" else []))
    swept.put(changed(live(node()), uid="n-1"))
    if keeps == "claim":
        swept.put(live(claim()))
    deletes = keeps == "nothing"
    assert await swept.act(FindingKind.NODE_WITHOUT_CLAIM, uid="n-1", node_name="node-1") is deletes
    assert swept.kube.names(NODES) == ([] if deletes else ["node-1"])


async def test_a_template_of_a_class_that_was_written_since_the_list_stays() -> None:
    for observed, exists, deletes in ((False, True, False), (False, False, True), (True, True, True)):
        swept = Swept()
        if exists:
            swept.kube.add(EC2NODECLASSES, node_class())
        observations = Observations(now=START, classes=frozenset({"default"} if observed else ()))
        result = {"claim": "t", "node_class": "default", "template": "t", "observations": observations}
        assert await swept.act(FindingKind.UNUSED_TEMPLATE, **result) is deletes


async def test_a_claim_says_that_it_is_tagged_only_if_it_is() -> None:
    for tagged in (True, False):
        swept = Swept().put(live(claim()))
        swept.ec2.tagged = tagged
        assert await swept.act(FindingKind.UNTAGGED_INSTANCE, uid=REF.uid, node_name="node-1") is tagged
        written = swept.kube.objects[("nodeclaims", "", REF.name)]["metadata"]["annotations"]
        assert (labels.TAGGED in written) is tagged


async def test_a_finalizer_of_another_controller_is_reported_only_while_it_holds_the_claim() -> None:
    hold = changed(live(claim()), deletionTimestamp=stamp(START), finalizers=["example.com/hold"])
    assert await Swept().put(hold).act(FindingKind.FOREIGN_FINALIZER, uid=REF.uid)
    assert not await Swept().put(live(claim())).act(FindingKind.FOREIGN_FINALIZER, uid=REF.uid)
    assert not await Swept().act(FindingKind.FOREIGN_FINALIZER, uid=REF.uid)
