"""What a NodeClaim says of the EC2NodeClass that its instance was launched from (ANN-03, EC-S10)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import ec2nodeclass_hashes
from tenon.apis.validation import parse
from tenon.ec2.refusals.unavailable import UNAVAILABLE_OFFERINGS_TTL
from tenon.evolve import evolve
from tenon.kube.offerings import OfferingKey
from tenon.messages.launch import LaunchInput, LaunchRequest, LaunchResult, PrepareLaunchInput
from tenon.messages.offerings import OfferingRef
from tests.activities.node.fake_kube import stamp
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import FINALIZER, REF, World, claim

PROFILE = "karpenter.k8s.aws/instance-profile-name"


def hashes(raw: dict[str, Any]) -> dict[str, str]:
    parsed, _ = parse(EC2NodeClass, raw)
    assert parsed is not None
    return ec2nodeclass_hashes(parsed)


def unlaunched() -> tuple[World, Launching]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    world, waiting = World(), claim(nodeClassRef=reference)
    waiting["status"] = {}
    world.kube.add(NODECLAIMS, waiting)
    world.kube.add(EC2NODECLASSES, node_class())
    return world, Launching(world.kube, world.recorder, cast("Any", Seller()), world.clock)


async def test_a_class_edited_during_the_launch_leaves_the_hash_of_the_request() -> None:
    """Else the node would pass for one of the new class, and never count as drifted."""
    world, launching = unlaunched()
    prepared = await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1))
    assert prepared.request is not None
    edited = node_class(role="others", userData="echo new")
    world.kube.add(EC2NODECLASSES, edited)
    await launching.launch(LaunchInput(claim=REF, request=prepared.request))
    annotations = world.claim["metadata"]["annotations"]
    assert hashes(node_class()) != hashes(edited)
    assert hashes(node_class()).items() <= annotations.items()
    assert annotations[PROFILE] == "profile-of-nodes"


async def test_a_claim_says_the_whole_price_of_its_instance() -> None:
    """Of four digits, `tenon node list` made another sum for a month than `tenon cost`."""

    class SpotSeller(Seller):
        def launch(self, request: LaunchRequest) -> LaunchResult:
            instance = super().launch(request).instance
            assert instance is not None
            return LaunchResult(instance=evolve(instance, price=0.059353))

    world, _ = unlaunched()
    launching = Launching(world.kube, world.recorder, cast("Any", SpotSeller()), world.clock)
    prepared = await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1))
    assert prepared.request is not None
    await launching.launch(LaunchInput(claim=REF, request=prepared.request))
    assert world.claim["metadata"]["annotations"][labels.LAUNCH_PRICE] == "0.059353"


async def test_ecs10_the_hash_on_a_claim_covers_the_ca_bundle_that_its_node_got() -> None:
    world, _ = unlaunched()
    seller = Seller()
    seller.cluster = replace(seller.cluster, ca_bundle="Q0E=")
    launching = Launching(world.kube, world.recorder, cast("Any", seller), world.clock)
    prepared = await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1))
    assert prepared.request is not None
    await launching.launch(LaunchInput(claim=REF, request=prepared.request))
    parsed, _ = parse(EC2NodeClass, node_class())
    assert parsed is not None
    annotations = world.claim["metadata"]["annotations"]
    assert ec2nodeclass_hashes(parsed, "Q0E=").items() <= annotations.items()


async def test_aws041_a_young_claim_is_launched_without_what_its_plan_left_out() -> None:
    """Another replica received the refusal or the interruption."""
    world, launching = unlaunched()
    seller = cast("Seller", launching.parts.provider)
    annotation = {labels.UNAVAILABLE_OFFERINGS: "spot/m5.large/us-west-2a"}
    await world.kube.patch(NODECLAIMS, REF.name, {"metadata": {"annotations": annotation}})
    await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1))
    assert OfferingKey("spot", "m5.large", "us-west-2a") in seller.unavailable
    assert OfferingKey("spot", "m5.large", "us-west-2b") not in seller.unavailable


@pytest.mark.parametrize(("timedelta", "avoids"), [(timedelta(seconds=1), True), (timedelta(), False)])
async def test_aws041_a_refusal_that_the_plan_knew_is_forgotten_in_time(timedelta: timedelta, *, avoids: bool) -> None:
    """A claim that waits for long may get the offering again, like a new claim."""
    world, launching = unlaunched()
    world.claim["metadata"]["creationTimestamp"] = stamp(world.clock())
    world.claim["metadata"]["annotations"][labels.UNAVAILABLE_OFFERINGS] = "spot/m5.large/us-west-2a"
    began = world.clock()
    world.clock.instant += UNAVAILABLE_OFFERINGS_TTL - timedelta
    prepared = await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1, began_at=began))
    assert prepared.request is not None
    seller = cast("Seller", launching.parts.provider)
    assert (OfferingKey("spot", "m5.large", "us-west-2a") in seller.unavailable) is avoids


@pytest.mark.parametrize("named_offerings", ["", None, "spot/c5.large/us-west-2a"])
async def test_aws041_a_claim_without_a_plan_avoids_for_three_minutes_what_ec2_refused(
    named_offerings: str | None,
) -> None:
    """Such as one of a static NodePool, which would ask for spot again and never get to on-demand."""
    world, launching = unlaunched()
    refused = OfferingKey("spot", "m5.large", "us-west-2a")
    launching.parts.breakers.mark_unavailable([OfferingRef.of(refused)])
    seller = cast("Seller", launching.parts.provider)
    for seconds, avoids in ((31, True), (148, True), (2, False)):
        world.clock.instant += timedelta(seconds=seconds)
        world.claim["metadata"]["creationTimestamp"] = stamp(world.clock())
        if named_offerings is not None:
            world.claim["metadata"]["annotations"][labels.UNAVAILABLE_OFFERINGS] = named_offerings
        await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1, began_at=world.clock()))
        assert (refused in seller.unavailable) is (avoids and named_offerings is None), "a plan decides for its claims"


async def test_fin01_a_claim_has_its_finalizer_before_its_launch_is_prepared() -> None:
    """Without it, a deletion during the launch would not wait until the instance is gone."""
    world, launching = unlaunched()
    world.claim["metadata"]["finalizers"] = []
    assert (await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1))).request is not None
    assert world.claim["metadata"]["finalizers"] == [FINALIZER]


async def test_nothing_is_prepared_for_a_claim_that_goes_before_it_has_its_finalizer() -> None:
    world, launching = unlaunched()
    world.claim["metadata"]["finalizers"] = []
    world.kube.before_patch.append(lambda: world.kube.objects.pop(("nodeclaims", "", REF.name)))
    result = await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1))
    assert (result.view.exists, result.request) == (False, None)


async def test_a_request_of_an_older_release_counts_as_made_from_the_class_as_it_is() -> None:
    """Its recorded form does not say what it was made from."""
    world, launching = unlaunched()
    bare = LaunchRequest(client_token="t", capacity_type="on-demand", templates=[], tags={})
    await launching.launch(LaunchInput(claim=REF, request=bare))
    annotations = world.claim["metadata"]["annotations"]
    assert hashes(node_class()).items() <= annotations.items()
    assert annotations[PROFILE] == "profile-of-nodes"


async def test_digests_of_another_release_are_not_written() -> None:
    """The class has this release's digest by then: the claim would never be taken over again."""
    world, launching = unlaunched()
    made_from = {**hashes(node_class()), "karpenter.k8s.aws/ec2nodeclass-hash-version": "tenon-v0"}
    old = LaunchRequest(client_token="t", capacity_type="on-demand", templates=[], tags={}, made_from=made_from)
    await launching.launch(LaunchInput(claim=REF, request=old))
    assert hashes(node_class()).items() <= world.claim["metadata"]["annotations"].items()
