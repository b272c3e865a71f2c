"""What the activity that resolves an EC2NodeClass writes on the object when AWS refuses, or does not answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from prometheus_client import REGISTRY

from activities.ec2.client import Ec2
from activities.ec2.nodeclass import UnansweredError
from activities.ec2.provider import Ec2Provider
from activities.kubernetes.resources import CONTROLLERREVISIONS, EC2NODECLASSES, NODECLAIMS, NODEPOOLS
from activities.nodeclass.cluster_version import ClusterVersion
from activities.nodeclass.nodeclasses import NodeClassActivities
from sandbox.ec2.authorization.identities import POLICY
from sandbox.ec2.consistency import Delays
from sandbox.ec2.faults import Fault
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.messages.nodeclass import NodeClassInput, NodeClassResult
from tenon.rollout.revisions import revision_of, to_object
from tests.activities.node.fake_kube import Clock, FakeKube, Recorder
from tests.ec2.samples import node_class
from tests.tenon.apis.case import NODEPOOL, edited, term

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


class World:
    """One EC2NodeClass in a cluster, and the sandbox's EC2."""

    def __init__(self, provider: Ec2Provider, name: str) -> None:
        self.name = name
        self.kube = FakeKube(Clock())
        self.recorder = Recorder()
        written = node_class({}, role="KarpenterNodeRole-sandbox").to_dict()
        written["metadata"] = {"name": name, "uid": name, "generation": 1}
        self.kube.add(EC2NODECLASSES, written)
        version = ClusterVersion(provider.cluster.kubernetes_version, cast("Any", None))
        self.clock = Clock()
        self._activities = NodeClassActivities(
            cast("Any", self.kube), self.recorder, provider, version, self.clock, namespace="tenon"
        )

    async def resolve(self) -> NodeClassResult:
        return await self._activities.resolve(NodeClassInput(cluster="sandbox", name=self.name))

    def put_pool(self, name: str, family: str, node_class_name: str = "") -> None:
        """A NodePool of the class, or of another one, that selects the instance types of one family."""
        requirements = [term("karpenter.k8s.aws/instance-family", "In", family)]
        pool = edited(NODEPOOL, {"template/spec/requirements": requirements})
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = node_class_name or self.name
        self.kube.add(NODEPOOLS, {**pool, "metadata": {"name": name}})

    async def conditions(self) -> dict[str, tuple[str, str, str]]:
        node_class = await self.kube.get(EC2NODECLASSES, self.name) or {}
        return {
            condition["type"]: (condition["status"], condition["reason"], condition["message"])
            for condition in node_class["status"]["conditions"]
        }


@pytest.fixture
def only_types(server: Server) -> Iterator[Callable[[str], None]]:
    """Denies the worker all instance types but those that match a pattern, until the test ends."""

    def deny_others(pattern: str) -> None:
        document: dict[str, Any] = json.loads(POLICY.read_text())
        statement = {"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "arn:aws:ec2:*:*:instance/*"}
        document["Statement"].append({**statement, "Condition": {"StringNotLike": {"ec2:InstanceType": pattern}}})
        server.world.judge.replace("sandbox", json.dumps(document))

    yield deny_others
    server.world.judge.replace("sandbox", None)


async def test_aws167_a_dry_run_has_an_instance_type_that_a_node_pool_of_the_class_selects(
    provider: Ec2Provider, only_types: Callable[[str], None]
) -> None:
    """A policy may allow only these. What passed for other requirements of the NodePool does not count."""
    world = World(provider, "few-types")
    only_types("m5.*")
    world.put_pool("of-another-class", "t3", "other")
    world.put_pool("web", "m5")
    assert (await world.resolve()).ready
    world.put_pool("web", "c5")
    assert not (await world.resolve()).ready
    assert (await world.conditions())["ValidationSucceeded"][:2] == ("False", "RunInstancesAuthCheckFailed")
    world.put_pool("web", "m5")
    assert (await world.resolve()).ready


async def test_aws167_without_a_node_pool_that_selects_a_type_a_dry_run_has_the_cheapest_of_all(
    provider: Ec2Provider, server: Server
) -> None:
    """One that is deleted or invalid selects none, and neither does one whose types the class does not have."""
    world = World(provider, "no-types")

    def tried() -> set[str]:
        calls = server.world.calls.listing()
        return {call["parameters"]["InstanceType"] for call in calls if call["action"] == "RunInstances"}

    assert (await world.resolve()).ready
    cheapest = tried()
    for name, family in (("ends", "m5"), ("invalid", "m5"), ("unknown", "no-such-family")):
        world.put_pool(name, family)
    world.kube.objects["nodepools", "", "ends"]["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    world.kube.objects["nodepools", "", "invalid"]["spec"]["weight"] = 0
    await world.kube.patch(EC2NODECLASSES, "no-types", {"spec": {"tags": {"tried": "again"}}})
    server.world.calls.clear()
    assert (await world.resolve()).ready
    assert tried() == cheapest


async def test_ecs7_a_refusal_is_on_the_class_with_an_event(provider: Ec2Provider, server: Server) -> None:
    world = World(provider, "refused")
    server.world.faults.add(Fault(action="DescribeSubnets", code="UnauthorizedOperation", status=403, count=None))
    result = await world.resolve()
    assert (result.exists, result.ready) == (True, False), "the workflow looks again in a minute"
    conditions = await world.conditions()
    status, reason, message = conditions["SubnetsReady"]
    assert (status, reason, conditions["Ready"][0]) == ("False", "Unauthorized", "False")
    assert ("EC2NodeClass", "refused", "Unauthorized", message) in world.recorder.events
    server.world.faults.clear()
    assert (await world.resolve()).ready


async def test_ecs7_an_outage_is_on_a_new_class_and_resolved_again_soon(provider: Ec2Provider, server: Server) -> None:
    world = World(provider, "unanswered")
    server.world.faults.add(Fault(action="DescribeSubnets", code="InternalError", status=500, count=None))
    with pytest.raises(UnansweredError):
        await world.resolve()
    conditions = await world.conditions()
    assert (conditions["SubnetsReady"][0], conditions["Ready"][0]) == ("Unknown", "Unknown")
    server.world.faults.clear()
    assert (await world.resolve()).ready
    server.world.faults.add(Fault(action="DescribeSubnets", code="InternalError", status=500, count=None))
    with pytest.raises(UnansweredError):
        await world.resolve()
    assert (await world.conditions())["Ready"][0] == "True", "an outage makes no class unready"


async def test_a_class_that_waits_for_its_new_instance_profile_says_so_in_its_status_and_warns_nobody(
    provider: Ec2Provider, server: Server
) -> None:
    server.world.consistency.delays = Delays(profile=10.0)
    world = World(provider, "new")
    try:
        with pytest.raises(UnansweredError):
            await world.resolve()
    finally:
        server.world.consistency.restore()
    status, reason, _ = (await world.conditions())["ValidationSucceeded"]
    assert (status, reason) == ("Unknown", "InstanceProfileNotFound")
    assert world.recorder.events == []


async def test_what_others_write_while_ec2_is_asked_stays_on_the_class(provider: Ec2Provider) -> None:
    world = World(provider, "shared")
    version_held = {
        "type": "VersionHeld",
        "status": "True",
        "reason": "RolledOutInWaves",
        "message": "web",
        "lastTransitionTime": "2026-03-01T12:00:00Z",
    }

    def hold() -> None:
        stored = world.kube.objects["ec2nodeclasses", "", "shared"]
        stored["metadata"]["resourceVersion"] = "held"
        stored.setdefault("status", {}).setdefault("conditions", []).append(version_held)

    world.kube.before_patch += [lambda: None, hold]  # its finalizer is the first
    assert (await world.resolve()).ready
    conditions = await world.conditions()
    assert (conditions["VersionHeld"][0], conditions["Ready"][0]) == ("True", "True")
    written = len(world.kube.calls)
    await world.resolve()
    assert len(world.kube.calls) == written, "what is written already is not written again"


async def test_a_class_that_was_created_again_gets_nothing_of_the_one_before(provider: Ec2Provider) -> None:
    """It would be ready with subnets that it does not select, and nodes would be launched into them."""
    world = World(provider, "again")

    def create_again() -> None:
        written = node_class({}, role="KarpenterNodeRole-sandbox").to_dict()
        written["metadata"] = {"name": "again", "uid": "new", "generation": 1}
        written["spec"]["subnetSelectorTerms"] = [{"id": "subnet-0123456789abcdef0"}]
        world.kube.add(EC2NODECLASSES, written)

    world.kube.before_patch += [lambda: None, create_again]
    assert not (await world.resolve()).ready
    conditions = await world.conditions()
    assert (conditions["SubnetsReady"][:2], conditions["Ready"][0]) == (("False", "SubnetsNotFound"), "False")


async def test_ec04_a_placement_group_that_is_no_longer_selected_leaves_the_status(
    provider: Ec2Provider, server: Server
) -> None:
    """Launches would go on into it. A group of another kind keeps nothing of the one before."""
    server.world.groups.create("parts", "partition", 7)
    server.world.groups.create("rack", "spread")
    world = World(provider, "moves")

    async def group(selector: dict[str, str] | None) -> dict[str, Any] | None:
        await world.kube.patch(EC2NODECLASSES, "moves", {"spec": {"placementGroupSelector": selector}})
        assert (await world.resolve()).ready
        node_class = await world.kube.get(EC2NODECLASSES, "moves") or {}
        status: dict[str, Any] = node_class["status"]
        return status.get("placementGroup")

    first = await group({"name": "parts"})
    assert first is not None
    assert first["partitionCount"] == 7
    second = await group({"name": "rack"})
    assert second is not None
    assert (second["strategy"], "partitionCount" in second) == ("spread", False)
    assert await group(None) is None
    written = len(world.kube.calls)
    await world.resolve()
    assert len(world.kube.calls) == written, "what is written already is not written again"
    server.world.groups.clear()


async def test_ecs11_a_class_that_cannot_be_cleaned_up_says_why(provider: Ec2Provider, server: Server) -> None:
    world = World(provider, "leaving")
    assert (await world.resolve()).ready
    await world.kube.delete(EC2NODECLASSES, "leaving")
    server.world.faults.add(Fault(action="DeleteInstanceProfile", code="AccessDenied", status=403, count=None))
    result = await world.resolve()
    assert (result.exists, result.deleting) == (True, True)
    (event,) = [event for event in world.recorder.events if event[2] == "FailedTermination"]
    assert "allow iam:DeleteInstanceProfile in the IAM policy" in event[3]
    server.world.faults.clear()
    assert not (await world.resolve()).exists


async def test_a_class_whose_cluster_is_torn_down_gets_no_new_instance_profile(
    provider: Ec2Provider, clients: Ec2
) -> None:
    """A worker that still runs would otherwise make again what the teardown has removed."""
    world = World(provider, "torn-down")
    await world.kube.patch(EC2NODECLASSES, "torn-down", {"metadata": {"annotations": {labels.TEARDOWN: "teardown/a"}}})
    before = provider.cluster_profiles()
    result = await world.resolve()
    assert (result.exists, result.ready) == (True, False)
    assert "the cluster is being torn down" in result.message
    assert provider.cluster_profiles() == before
    assert "finalizers" not in (await world.kube.get(EC2NODECLASSES, "torn-down") or {})["metadata"]


async def test_ecs7_a_class_that_cannot_be_parsed_says_so_itself(provider: Ec2Provider) -> None:
    """An older CRD may have let it in. What was found for it before stays."""
    world = World(provider, "unparsable")
    assert (await world.resolve()).ready
    await world.kube.patch(EC2NODECLASSES, "unparsable", {"spec": {"subnetSelectorTerms": "none"}})
    result = await world.resolve()
    assert not result.ready
    conditions = await world.conditions()
    status, reason, message = conditions["ValidationSucceeded"]
    assert (status, reason) == ("False", "ValidationFailed")
    assert message == result.message
    assert message.startswith("spec.subnetSelectorTerms")
    assert conditions["Ready"][:2] == ("False", "UnhealthyDependents")
    assert conditions["SubnetsReady"][0] == "True"
    written = len(world.kube.calls)
    await world.resolve()
    assert len(world.kube.calls) == written, "what is written already is not written again"


@pytest.mark.parametrize(
    ("kubelet", "text"),
    [
        ({"maxPods": -1}, "spec.kubelet.maxPods"),
        ({"evictionHard": {"memory.available": "150%"}}, "spec.kubelet.evictionHard"),
        ({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 80}, "must be above"),
        ({"kubeReserved": "none"}, "spec.kubelet.kubeReserved"),
        ({"maxPods": [1], "clusterDNS": {"a": 5}}, "spec.kubelet.clusterDNS"),
    ],
)
async def test_ec13_faulty_kubelet_settings_are_told_in_a_condition(
    provider: Ec2Provider, kubelet: dict[str, Any], text: str
) -> None:
    """The API server stores them, as with Karpenter. Nothing is launched with them."""
    world = World(provider, "faulty")
    assert (await world.resolve()).ready
    await world.kube.patch(EC2NODECLASSES, "faulty", {"spec": {"kubelet": kubelet}})
    assert not (await world.resolve()).ready
    status, reason, message = (await world.conditions())["ValidationSucceeded"]
    assert (status, reason) == ("False", "InvalidKubeletConfiguration")
    assert text in message
    assert "InvalidKubeletConfiguration" in [event[2] for event in world.recorder.events]
    await world.kube.patch(EC2NODECLASSES, "faulty", {"spec": {"kubelet": None}})
    assert (await world.resolve()).ready


async def test_act05_the_profile_of_an_earlier_role_goes_with_its_last_node(
    provider: Ec2Provider, clients: Ec2, server: Server
) -> None:
    """Within half an hour, and not while a NodeClaim names it. A refusal does not make the class unready. An AWS that
    does not answer is asked again at the next resolve."""
    other, world = World(provider, "given"), World(provider, "moved")
    profiles = []
    for item in (other, world):
        assert (await item.resolve()).ready
        profiles.append((await item.kube.get(EC2NODECLASSES, item.name) or {})["status"]["instanceProfile"])
    value, earlier = profiles
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "moved"}
    node = {
        "metadata": {"name": "node", "uid": "node", "annotations": {labels.INSTANCE_PROFILE: earlier}},
        "spec": {"nodeClassRef": reference},
    }
    world.kube.add(NODECLAIMS, node)

    async def exists_later(minutes: int = 30) -> bool:
        world.clock.instant += timedelta(minutes=minutes)
        assert (await world.resolve()).ready
        return any(
            instance_profile["InstanceProfileName"] == earlier
            for instance_profile in clients.iam.list_instance_profiles()["InstanceProfiles"]
        )

    await world.kube.patch(EC2NODECLASSES, "moved", {"spec": {"role": None, "instanceProfile": value}})
    assert await exists_later()
    await world.kube.delete(NODECLAIMS, "node")
    server.world.faults.add(Fault(action="DeleteInstanceProfile", code="AccessDenied", status=403, count=None))
    assert await exists_later()
    server.world.faults.clear()
    assert await exists_later(1), "what AWS refuses is not asked for at each resolve"
    server.world.faults.add(Fault(action="DeleteInstanceProfile", code="ServiceFailure", status=500, count=None))
    assert await exists_later()
    server.world.faults.clear()
    assert not await exists_later(1)
    assert clients.iam.get_instance_profile(InstanceProfileName=value)


async def test_act05_the_profile_of_a_version_that_is_recorded_stays(provider: Ec2Provider, clients: Ec2) -> None:
    """A NodePool that keeps its version launches more nodes with it, also when the last node of it is gone."""
    other, world = World(provider, "new-role"), World(provider, "held")
    for item in (other, world):
        assert (await item.resolve()).ready
    read = EC2NodeClass.model_validate(await world.kube.get(EC2NODECLASSES, "held"))
    new_profile = ((await other.kube.get(EC2NODECLASSES, "new-role")) or {})["status"]["instanceProfile"]
    world.put_pool("web", "m5")
    pool = NodePool.model_validate(await world.kube.get(NODEPOOLS, "web"))
    recorded = world.kube.add(CONTROLLERREVISIONS, to_object(revision_of(pool, read), "tenon", 1))

    async def exists_later() -> bool:
        world.clock.instant += timedelta(minutes=30)
        assert (await world.resolve()).ready
        profiles = clients.iam.list_instance_profiles()["InstanceProfiles"]
        return read.status.instance_profile in {profile["InstanceProfileName"] for profile in profiles}

    await world.kube.patch(EC2NODECLASSES, "held", {"spec": {"role": None, "instanceProfile": new_profile}})
    assert await exists_later()
    await world.kube.delete(CONTROLLERREVISIONS, recorded["metadata"]["name"], namespace="tenon")
    assert not await exists_later()


async def test_ec10_user_data_of_nearly_the_most_that_ec2_takes_is_warned_of(provider: Ec2Provider) -> None:
    world = World(provider, "large")
    await world.kube.patch(EC2NODECLASSES, "large", {"spec": {"userData": "#!/bin/bash\n" + "#" * 13000}})
    assert (await world.resolve()).ready
    assert "UserDataNearLimit" not in world.recorder.reasons()
    await world.kube.patch(EC2NODECLASSES, "large", {"spec": {"userData": "#!/bin/bash\n" + "#" * 14800}})
    assert (await world.resolve()).ready
    assert "UserDataNearLimit" in world.recorder.reasons()


async def test_ec10_user_data_that_only_a_launch_makes_too_large_is_on_the_class(provider: Ec2Provider) -> None:
    world = World(provider, "too-large")
    script = "#!/bin/bash\n"
    await world.kube.patch(EC2NODECLASSES, "too-large", {"spec": {"userData": script}})
    assert (await world.resolve()).ready
    small = EC2NodeClass.model_validate(await world.kube.get(EC2NODECLASSES, "too-large"))
    room = 16384 - provider.user_data_bytes(small) - 10
    await world.kube.patch(EC2NODECLASSES, "too-large", {"spec": {"userData": script + "#" * room}})
    assert not (await world.resolve()).ready
    status, reason, message = (await world.conditions())["ValidationSucceeded"]
    assert (status, reason) == ("False", "UserDataSizeLimitExceeded")
    assert "EC2 takes at most 16384" in message


async def test_act17_each_change_of_a_condition_is_counted_and_an_event(provider: Ec2Provider, server: Server) -> None:
    """MET-60: new conditions are counted only, and a resolve that changes no status reports nothing."""

    def counted(status: str, reason: str) -> float:
        name = "operator_ec2nodeclass_status_condition_transitions_total"
        expectation = {"type": "SubnetsReady", "status": status, "reason": reason}
        return REGISTRY.get_sample_value(name, expectation) or 0.0

    world = World(provider, "changing")
    new = counted("True", "SubnetsReady")
    assert (await world.resolve()).ready
    assert counted("True", "SubnetsReady") == new + 1
    assert "SubnetsReady" not in world.recorder.reasons()
    refused = counted("False", "Unauthorized")
    server.world.faults.add(Fault(action="DescribeSubnets", code="UnauthorizedOperation", status=403, count=None))
    world.clock.instant += timedelta(minutes=10)
    for _ in range(2):
        assert not (await world.resolve()).ready
    assert counted("False", "Unauthorized") == refused + 1
    (event,) = [event for event in world.recorder.events if event[2] == "SubnetsReady"]
    assert event[3].startswith("SubnetsReady changed from True to False: Unauthorized: ")
    server.world.faults.clear()
