"""NodeClaims that EC2 refuses because of their EC2NodeClass give their pods to NodePools of other classes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from activities.provisioning.superseded_claims import delete_superseded
from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.provisioning import LaunchBreaker
from tenon.node.launch_breaker import refused
from tenon.node.leave_text import recorded
from tests.activities.node.fake_kube import stamp
from tests.activities.provisioning.fake_view import START, node_class, node_pool
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import CATALOG, pod

CREATED = START - timedelta(seconds=10)
TYPES = sorted(kind.name for kind in CATALOG)


def of_class(**changes: Any) -> LaunchBreaker:
    breaker = refused(None, "", "InvalidGroup.NotFound", "no such group", START, node_class="default")
    return breaker.model_copy(update=changes)


def waiting(*pods: str, other: dict[str, Any] | None = None, **metadata: Any) -> Setting:
    """These pods, whose NodeClaim of NodePool default waits for its instance, and a NodePool of another class."""
    at = Setting(*(pod(name) for name in pods))
    at.view.pools = [
        node_pool("default", {"weight": 100}),
        node_pool("other", {"template/spec/nodeClassRef/name": "other", **(other or {})}),
    ]
    at.view.classes["other"] = node_class("other")
    at.view.launching = {"default"}
    body = {
        "metadata": {
            "name": "waits",
            "uid": "uid-waits",
            "resourceVersion": "1",
            "creationTimestamp": stamp(CREATED),
            "labels": {labels.NODEPOOL: "default", labels.BATCH: "40"},
            **metadata,
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": TYPES}],
        },
    }
    at.view.claims["waits"] = ClaimRecord.of(body)
    at.view.planned["waits"] = frozenset(f"uid-{name}" for name in pods)
    at.kube.objects["waits"] = body
    return at


async def planned(at: Setting, breaker: LaunchBreaker) -> list[str]:
    result = await at.planner.plan(BATCH.model_copy(update={"breakers": [breaker]}))
    await at.events_written()
    return result.claims


async def test_lif01_pods_of_a_refused_class_get_a_node_of_another_class_at_once() -> None:
    at = waiting("a", "b")
    assert len(await planned(at, of_class())) == 1
    assert "waits" not in at.kube.objects
    assert at.pools_used() == {"other"}
    (message,) = [event[3] for event in at.recorder.events if event[:3] == ("NodeClaim", "waits", "LaunchFailed")]
    assert message == (
        "Its pods get other nodes, because EC2 refuses what EC2NodeClass default asks for: "
        "InvalidGroup.NotFound: no such group"
    )
    (why,) = recorded(at.kube.patched["waits"])
    assert (why.reason, why.detail, why.actor) == ("InvalidGroup.NotFound", message, "controller provisioner")


async def test_lif01_pods_wait_a_minute_for_an_instance_profile_that_ec2_may_not_know_yet() -> None:
    """IAM tells EC2 of a profile that was just created only after seconds."""
    breaker = of_class(reason="InstanceProfileNameInvalid", next_probe_at=START + timedelta(minutes=1))
    at = waiting("a")
    at.now = START + timedelta(seconds=55)
    assert await planned(at, breaker) == []
    assert "waits" in at.kube.objects
    at.now = START + timedelta(seconds=61)
    assert len(await planned(at, breaker)) == 1
    assert at.pools_used() == {"other"}
    assert "waits" not in at.kube.objects


async def test_lif01_a_nodeclaim_whose_pods_no_other_class_serves_stays() -> None:
    """Its pods say why they wait, and the NodeClaim goes on probing."""
    at = waiting("a", other={"template/spec/taints": [{"key": "gpu", "effect": "NoSchedule"}]})
    assert await planned(at, of_class()) == []
    assert "waits" in at.kube.objects
    (message,) = [event[3] for event in at.recorder.events if event[2] == "FailedScheduling"]
    assert "EC2 refuses what EC2NodeClass default asks for: InvalidGroup.NotFound: no such group" in message
    assert at.batcher.undecided() == [], "it is not planned without end"


async def test_a_nodeclaim_stays_as_long_as_one_of_its_pods_has_no_other_place() -> None:
    at = waiting("a", "b")
    at.view.pods[1] = pod("b", cpu="1000")
    assert len(await planned(at, of_class())) == 1
    assert "waits" in at.kube.objects


async def test_a_nodeclaim_goes_when_an_earlier_plan_already_gave_a_pod_another_nodeclaim() -> None:
    at = waiting("a", "b")
    new = ClaimRecord.of({"metadata": {"name": "new", "uid": "uid-new", "labels": {labels.NODEPOOL: "other"}}})
    at.view.claims["new"], at.view.planned["new"] = new, frozenset({"uid-a"})
    await delete_superseded(
        cast("Any", at.kube), at.recorder, at.view, {"waits": (at.view.claims["waits"], of_class())}, placed={"uid-b"}
    )
    assert "waits" not in at.kube.objects


async def test_a_nodeclaim_that_was_launched_while_the_plan_was_made_stays() -> None:
    """Somebody mended the class, and the probe bought an instance."""
    at = waiting("a")
    at.view.launching = set()
    await delete_superseded(
        cast("Any", at.kube), at.recorder, at.view, {"waits": (at.view.claims["waits"], of_class())}, placed={"uid-a"}
    )
    assert "waits" in at.kube.objects


async def test_a_nodeclaim_that_was_launched_before_the_cache_shows_it_stays() -> None:
    at = waiting("a")
    at.kube.objects["waits"]["status"] = {"providerID": "aws:///us-west-2a/i-1"}
    await delete_superseded(
        cast("Any", at.kube), at.recorder, at.view, {"waits": (at.view.claims["waits"], of_class())}, placed={"uid-a"}
    )
    assert "waits" in at.kube.objects
    assert at.recorder.events == []


async def test_a_nodeclaim_that_was_made_after_the_refusal_keeps_its_pods() -> None:
    """It is the probe that shows whether the class is mended."""
    at = waiting("a", creationTimestamp=stamp(START + timedelta(seconds=1)))
    assert await planned(at, of_class()) == []
    assert "waits" in at.kube.objects


async def test_a_refusal_of_other_types_leaves_the_nodeclaim_its_pods() -> None:
    at = waiting("a")
    assert await planned(at, of_class(instance_types=["mac1.metal"])) == []
    assert "waits" in at.kube.objects


async def test_a_refusal_of_a_nodepool_leaves_the_nodeclaim_its_pods() -> None:
    """EC2 may accept the next launch, and LIF-05 bounds the wait."""
    at = waiting("a")
    assert await planned(at, refused(None, "default", "Unauthorized", "you may not", START)) == []
    assert "waits" in at.kube.objects
