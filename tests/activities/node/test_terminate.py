"""The end of an instance, as a node's life asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from activities.ec2 import termination_batch
from activities.ec2.errors import EC2Error
from activities.kubernetes.resources import DISRUPTIONFREEZES, NODECLAIMS, NODEPOOLS
from activities.node.nodeclaim_lifecycle import NodeActivities
from tenon.messages.node_steps import ExpirationInput, ReleaseInput, TerminateInput, TerminateResult
from tests.activities.node.world import REF, World, claim


class Forgetful:
    """An EC2 that knows no instance."""

    def why_ended(self, instance_id: str) -> None:
        return None

    def terminate_instances(self, instance_ids: Sequence[str]) -> Mapping[str, None]:
        return dict.fromkeys(instance_ids)

    def states(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        return {}


async def ended(launched_ago: timedelta, *, shown: bool) -> tuple[TerminateResult, str]:
    """What the activity says of an instance that EC2 does not know, and the condition InstanceTerminating then."""
    world, launched = World(), claim()
    at = datetime.now(UTC) - launched_ago
    launched["status"]["conditions"][0]["lastTransitionTime"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    world.kube.add(NODECLAIMS, launched)
    activities = NodeActivities(world.kube, world.recorder, cast("Any", Forgetful()))
    result = await activities.terminate(TerminateInput(claim=REF, instance_id="i-1", shown=shown))
    return result, world.status_of("InstanceTerminating")[0]


@pytest.mark.parametrize(
    ("launched_ago", "shown", "removal"),
    [
        (timedelta(seconds=3), False, False),
        (timedelta(seconds=3), True, True),
        (timedelta(minutes=5), False, True),
    ],
    ids=["just-launched", "seen-before", "long-ago"],
)
async def test_an_instance_that_ec2_does_not_know_is_gone_unless_it_may_not_be_shown_yet(
    launched_ago: timedelta, *, shown: bool, removal: bool
) -> None:
    """Otherwise the Node goes and its instance stays."""
    result, condition = await ended(launched_ago, shown=shown)
    assert (result.terminated, condition) == (removal, "True" if removal else "")
    assert (result.asked_at is not None) is removal


class Busy:
    """An EC2 that ends instances at once, and counts how often it is asked."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []

    def why_ended(self, instance_id: str) -> None:
        return None

    def terminate_instances(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        self.requests.append(list(instance_ids))
        return dict.fromkeys(instance_ids, "terminated")

    def states(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        raise AssertionError("there is nothing to look at")


async def test_aws032_nodes_that_end_at_the_same_time_share_a_request() -> None:
    """What each asked for by itself used up the account's limits."""
    world, ec2 = World(), Busy()
    world.kube.add(NODECLAIMS, claim())
    activities = NodeActivities(world.kube, world.recorder, cast("Any", ec2))
    ids = [f"i-{number}" for number in range(50)]
    terminate_inputs = [TerminateInput(claim=REF, instance_id=item, shown=True) for item in ids]
    results = await asyncio.gather(*map(activities.terminate, terminate_inputs))
    assert all(result.terminated for result in results)
    assert sorted(item for call in ec2.requests for item in call) == sorted(ids)
    assert len(ec2.requests) <= 2


async def test_a_termination_that_is_tried_again_says_when_ec2_accepted_it_first() -> None:
    """What the instance cost is counted until then."""
    world, asked_at = World(), datetime(2026, 3, 1, 12, tzinfo=UTC)
    body = claim()
    condition = {"type": "InstanceTerminating", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}
    body["status"]["conditions"].append(condition)
    world.kube.add(NODECLAIMS, body)
    activities = NodeActivities(world.kube, world.recorder, cast("Any", Busy()))
    result = await activities.terminate(TerminateInput(claim=REF, instance_id="i-1", shown=True))
    assert (result.terminated, result.asked_at) == (True, asked_at)


class Lingering(Forgetful):
    """An EC2 whose instance shuts down until its NodeClaim says so, and for two checks more."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.checks: list[str] = []
        """What the condition InstanceTerminating was at each check."""

    def terminate_instances(self, instance_ids: Sequence[str]) -> Any:
        self.checks.append(self.world.status_of("InstanceTerminating")[0])
        return dict.fromkeys(instance_ids, "shutting-down")

    def states(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        self.checks.append(self.world.status_of("InstanceTerminating")[0])
        assert len(self.checks) < 1000, "nothing is written while the instance shuts down"
        return dict.fromkeys(instance_ids, "terminated" if self.checks.count("True") > 2 else "shutting-down")


async def test_trm10_dis50_a_claim_says_that_its_instance_terminates_once_ec2_has_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An instance may shut down for minutes, and its node uses up no budget and costs nothing meanwhile."""
    monkeypatch.setattr(termination_batch, "ROUND_SECONDS", 0.001)
    world = World()
    world.kube.add(NODECLAIMS, claim())
    ec2 = Lingering(world)
    activities = NodeActivities(world.kube, world.recorder, cast("Any", ec2))
    result = await activities.terminate(TerminateInput(claim=REF, instance_id="i-1", shown=True))
    assert result.terminated
    assert result.asked_at is not None
    assert (ec2.checks[0], len(world.kube.calls)) == ("", 1)


@pytest.mark.parametrize(
    ("reason", "value", "policy", "grace", "mode"),
    [
        ("Empty", {"consolidationPolicy": "WhenEmpty"}, "when_empty", None, "graceful"),
        ("Underutilized", {}, "when_empty_or_underutilized", "1h", "eventual"),
        ("Drifted", {"consolidationPolicy": "WhenEmpty"}, "", None, "graceful"),
        ("expired", {"consolidationPolicy": "WhenEmpty"}, "", "0s", "forceful"),
        ("Empty", None, "", None, "graceful"),
    ],
    ids=["WhenEmpty", "by-default", "drift", "expiry", "no-pool"],
)
async def test_n15_530_met08_a_disrupted_claim_counts_with_its_mode_and_policy(
    reason: str, value: dict[str, str] | None, policy: str, grace: str | None, mode: str
) -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim(**({"terminationGracePeriod": grace} if grace is not None else {})))
    if value is not None:
        world.kube.add(NODEPOOLS, {"metadata": {"name": "counted"}, "spec": {"disruption": value}})
    labels = {"nodepool": "counted", "reason": reason.lower(), "capacity_type": "spot"}
    labels |= {"consolidation_policy": policy, "termination_mode": mode}

    def counted() -> float:
        return REGISTRY.get_sample_value("karpenter_nodeclaims_disrupted_total", labels) or 0.0

    before = counted()
    activities = NodeActivities(world.kube, world.recorder, cast("Any", Forgetful()))
    await activities.release(ReleaseInput(claim=REF, pool="counted", capacity_type="spot", reason=reason))
    assert counted() == before + 1
    deleted = ReleaseInput(claim=REF, pool="counted", capacity_type="spot", reason=reason, already_deleted=True)
    await activities.release(deleted)
    assert counted() == before + 1, "what deleted the claim has counted it"


@pytest.mark.parametrize(
    ("annotations", "waits"), [({"tenon.sh/expire-within-budgets": "true"}, True), ({}, False), (None, False)]
)
async def test_wsh28_an_expired_node_waits_if_its_nodepool_says_so(
    annotations: dict[str, str] | None, waits: bool
) -> None:
    """A NodePool that is gone keeps no node."""
    world = World()
    if annotations is not None:
        world.kube.add(NODEPOOLS, {"metadata": {"name": "counted", "annotations": annotations}, "spec": {}})
    activities = NodeActivities(world.kube, world.recorder, cast("Any", Forgetful()))
    assert (await activities.check_expiration(ExpirationInput(claim=REF, pool="counted"))).waits is waits


@pytest.mark.parametrize(("pools", "frozen"), [(["counted"], True), (["other"], False)])
async def test_an_expired_node_waits_if_a_freeze_is_meant_for_its_nodepool(pools: list[str], frozen: bool) -> None:
    world = World()
    spec = {"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}}}}
    world.kube.add(NODEPOOLS, {"metadata": {"name": "counted"}, "spec": spec})
    world.kube.add(DISRUPTIONFREEZES, {"metadata": {"name": "release"}, "spec": {"nodePools": pools}})
    activities = NodeActivities(world.kube, world.recorder, cast("Any", Forgetful()))
    expired_at = datetime.now(UTC) - timedelta(hours=1)
    result = await activities.check_expiration(ExpirationInput(claim=REF, pool="counted", expired_at=expired_at))
    assert result.waits is False
    assert result.frozen.startswith("frozen by DisruptionFreeze release until ") is frozen
    assert result.frozen_until == (expired_at + timedelta(hours=72) if frozen else None)


async def test_met10_the_time_until_an_instance_is_gone_is_measured() -> None:
    world = World()
    since = (datetime.now(UTC) - timedelta(seconds=40)).strftime("%Y-%m-%dT%H:%M:%SZ")
    terminating = {"type": "InstanceTerminating", "status": "True", "lastTransitionTime": since}
    body = claim()
    body.setdefault("status", {})["conditions"] = [terminating]
    world.kube.add(NODECLAIMS, body)
    activities = NodeActivities(world.kube, world.recorder, cast("Any", Forgetful()))
    await activities.release(ReleaseInput(claim=REF, pool="timed"))
    name = "karpenter_nodeclaims_instance_termination_duration_seconds_sum"
    assert 40.0 <= (REGISTRY.get_sample_value(name, {"nodepool": "timed"}) or 0.0) < 60.0


class Refusing(Forgetful):
    """An EC2 that may not terminate instances."""

    def terminate_instances(self, instance_ids: Sequence[str]) -> Any:
        return {instance_id: EC2Error("UnauthorizedOperation", "no") for instance_id in instance_ids}


async def test_met53_a_refused_termination_counts_in_its_zone() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim())
    activities = NodeActivities(world.kube, world.recorder, cast("Any", Refusing()))
    with pytest.raises(EC2Error):
        await activities.terminate(TerminateInput(claim=REF, instance_id="i-1", zone="us-west-2z"))
    name = "karpenter_cloudprovider_instance_termination_failures_total"
    assert REGISTRY.get_sample_value(name, {"zone": "us-west-2z", "zone_id": ""}) == 1.0


async def test_dis50_an_instance_that_ec2_does_not_terminate_stays_in_budgets_and_costs() -> None:
    """Otherwise one node after the other is replaced, while all their instances run on."""
    world = World()
    world.kube.add(NODECLAIMS, claim())
    activities = NodeActivities(world.kube, world.recorder, cast("Any", Refusing()))
    for _ in range(2):
        with pytest.raises(EC2Error):
            await activities.terminate(TerminateInput(claim=REF, instance_id="i-1", shown=True))
    assert world.status_of("InstanceTerminating") == ("", "")
    assert world.kube.calls == [], "nothing is written on each attempt"
    allowed = NodeActivities(world.kube, world.recorder, cast("Any", Busy()))
    result = await allowed.terminate(TerminateInput(claim=REF, instance_id="i-1", shown=True))
    assert (result.terminated, world.status_of("InstanceTerminating")[0]) == (True, "True")
    assert result.asked_at is not None
