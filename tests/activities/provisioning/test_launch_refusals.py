"""Plans while EC2 refuses a NodePool: one claim probes, other pools take what they can, and people hear why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.ec2.refusals.backoff import FIRST_PAUSE, Backoff
from tenon.ec2.refusals.unavailable import grouped
from tenon.evolve import evolve
from tenon.kube.offerings import OfferingKey
from tenon.kube.timestamps import format_instant
from tenon.messages.provisioning import AwaitBatchInput, LaunchReport, UnavailableTypes
from tenon.node.launch_breaker import UNTRIED_FOR, by_key, ended_booting, is_open, refused, sentence
from tenon.provisioning.launch_refusals import by_pool
from tests.activities.provisioning.fake_view import START, node_class, node_pool
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import CATALOG, asking, need, pod
from tests.worker.cache.objects import claim

BREAKER = refused(None, "default", "Unauthorized", "you may not", START)
HELD = BATCH.model_copy(update={"breakers": [BREAKER]})
BIG = "30"
"""CPU of a pod that needs a node of its own."""


async def test_no_more_claims_are_made_while_one_probes() -> None:
    at = Setting(pod("a"))
    at.view.launching = {"default"}
    result = await at.planner.plan(HELD)
    await at.events_written()
    assert (result.claims, result.unschedulable) == ([], 1)
    (message,) = [event[3] for event in at.recorder.events if event[2] == "FailedScheduling"]
    assert "NodePool default: its launches are held back because EC2 refuses them" in message
    assert "Unauthorized: you may not" in message


async def test_one_claim_is_made_where_none_probes() -> None:
    """Else nothing would ever find out that EC2 sells again."""
    at = Setting(pod("a", cpu=BIG), pod("b", cpu=BIG), pod("c", cpu=BIG))
    result = await at.planner.plan(HELD)
    assert (len(result.claims), result.unschedulable) == (1, 2)


async def test_aws140_a_plan_that_overtakes_the_report_of_an_interruption_avoids_the_offering() -> None:
    """The batch of other pods may close between the deletion of the NodeClaim and the report to the workflow."""
    offering = {labels.CAPACITY_TYPE: "spot", labels.INSTANCE_TYPE: "c6g.large", labels.ZONE: "us-west-2a"}
    zone, kind = need(labels.ZONE, "In", "us-west-2a"), need(labels.INSTANCE_TYPE, "In", "c6g.large", "m5.large")
    at = Setting(asking("a", zone, kind))
    interrupted = {labels.DELETED_BECAUSE: '[{"reason": "spot_interrupted"}]'}
    at.view.claims["leaves"] = claim(
        "leaves", meta={"labels": offering, "annotations": interrupted, "deletionTimestamp": format_instant(START)}
    )
    at.view.planned["leaves"] = frozenset()
    planned = await at.planner.plan(BATCH)
    (name,) = planned.claims
    assert "c6g.large" not in at.types_of(name)


async def test_pods_go_to_another_pool_that_takes_them() -> None:
    at = Setting(pod("a"))
    at.view.pools = [node_pool("default", {"weight": 100}), node_pool("other")]
    at.view.launching = {"default"}
    assert len((await at.planner.plan(HELD)).claims) == 1
    assert at.pools_used() == {"other"}


async def test_a_breaker_that_nothing_has_tried_for_long_holds_nothing_back() -> None:
    at = Setting(pod("a", cpu=BIG), pod("b", cpu=BIG))
    at.now = BREAKER.next_probe_at + UNTRIED_FOR + timedelta(seconds=1)
    assert len((await at.planner.plan(HELD)).claims) == 2


async def test_the_end_of_the_refusals_is_heard_with_the_next_question() -> None:
    at = Setting(pod("a", cpu=BIG), pod("b", cpu=BIG))
    await at.batcher.await_batch(AwaitBatchInput(cluster="c", breakers=[BREAKER], wait_seconds=0))
    assert len((await at.planner.plan(BATCH)).claims) == 2


async def test_aws033_offerings_that_ec2_refused_are_not_planned() -> None:
    """They arrive by zone, all types of one together."""
    at = Setting(pod("a"))
    names = [kind.name for kind in CATALOG]
    group = UnavailableTypes(
        capacity_type="spot", zone="us-west-2a", instance_types=names, until=START + timedelta(minutes=3)
    )
    changed_batch = BATCH.model_copy(update={"unavailable": [group]})
    result = await at.planner.plan(changed_batch)
    assert (result.claims, result.unschedulable) == ([], 1)
    at.now = group.until
    assert len((await at.planner.plan(changed_batch)).claims) == 1


async def test_pods_that_the_held_types_do_not_concern_get_nodes() -> None:
    """One pod wants what EC2 refuses. The others want other types of the same NodePool."""
    refused_type, fine = CATALOG[0].name, CATALOG[-1].name
    breaker = refused(None, "default", "InvalidAMIID", "gone", START, instance_types=[refused_type])
    at = Setting(
        asking("gpu", need(labels.INSTANCE_TYPE, "In", refused_type), cpu="0.1"),
        *(asking(f"web-{n}", need(labels.INSTANCE_TYPE, "In", fine), cpu="0.1") for n in range(5)),
    )
    at.view.launching = {"default"}
    result = await at.planner.plan(BATCH.model_copy(update={"breakers": [breaker]}))
    await at.events_written()
    assert (len(result.claims), result.unschedulable) == (1, 1)
    (message,) = [event[3] for event in at.recorder.events if event[2] == "FailedScheduling"]
    assert f"its launches of {refused_type} are held back because EC2 refuses them: InvalidAMIID: gone" in message


async def test_not_always_the_same_claim_probes() -> None:
    selection = set()
    for batch in (1, 2):
        at = Setting(pod("a", cpu=BIG), pod("b", cpu=BIG))
        await at.planner.plan(HELD.model_copy(update={"batch": batch}))
        (body,) = at.kube.objects.values()
        selection.add(body["metadata"]["annotations"][labels.PLANNED_PODS])
    assert len(selection) == 2


OF_CLASS = refused(None, "", "InstanceProfileNameInvalid", "no such profile", START, node_class="default")


def class_of(name: str) -> dict[str, Any]:
    return {"template/spec/nodeClassRef/name": name}


async def test_pods_go_to_a_pool_of_another_class_until_a_probe_is_due() -> None:
    """No NodeClaim waits for the refused class, and none is made for it as long as it would only wait."""
    at = Setting(pod("a"))
    at.view.pools = [node_pool("default"), node_pool("same-class"), node_pool("other", class_of("other"))]
    at.view.classes["other"] = node_class("other")
    changed_batch = BATCH.model_copy(update={"breakers": [OF_CLASS]})
    assert len((await at.planner.plan(changed_batch)).claims) == 1
    assert at.pools_used() == {"other"}


async def test_one_nodepool_of_a_refused_class_probes_for_all_of_them() -> None:
    at = Setting(pod("a", cpu=BIG), pod("b", cpu=BIG), asking("c", need(labels.NODEPOOL, "In", "same-class"), cpu=BIG))
    at.view.pools = [node_pool("default"), node_pool("same-class")]
    at.now = OF_CLASS.next_probe_at
    changed_batch = BATCH.model_copy(update={"breakers": [OF_CLASS]})
    result = await at.planner.plan(changed_batch)
    assert (len(result.claims), result.unschedulable) == (1, 2)
    at = Setting(pod("a", cpu=BIG))
    at.view.pools = [node_pool("default"), node_pool("same-class")]
    at.now = OF_CLASS.next_probe_at
    at.view.launching = {"default"}
    assert (await at.planner.plan(changed_batch)).claims == []


async def test_pods_that_only_a_refused_class_serves_are_planned_again_when_a_probe_is_due() -> None:
    at = Setting(pod("a"))
    for _ in range(3):
        at.batcher.record_unschedulable(at.view.pods, at.view.fingerprint())  # so that its own pause is long by now
    at.now = START + timedelta(minutes=1)
    late = OF_CLASS.model_copy(update={"next_probe_at": at.now + timedelta(seconds=15)})
    assert (await at.planner.plan(BATCH.model_copy(update={"breakers": [late]}))).claims == []
    assert at.batcher.undecided() == []
    at.now = late.next_probe_at
    assert at.batcher.undecided() == at.view.pods


def test_of_two_breakers_of_a_nodepool_the_types_of_both_count() -> None:
    """Otherwise plans would buy NodeClaims of the other types without end, and each would wait."""
    own = refused(None, "default", "Unauthorized", "you may not", START, instance_types=["m5.large"])
    of_class = refused(None, "", "InvalidAMIID", "gone", START, instance_types=["c7g.large"], node_class="default")
    (launch_breaker,) = by_pool(by_key([own, of_class]), [node_pool("default")]).values()
    assert launch_breaker.instance_types == ["c7g.large", "m5.large"]


def in_version(version: str) -> NodePool:
    """The NodePool as it launches a version of a rollout."""
    pool = node_pool()
    return evolve(pool, metadata=evolve(pool.metadata, annotations={labels.REVISION: version}))


async def test_an_image_that_ec2_refuses_in_one_version_holds_back_no_other_version() -> None:
    """A rollout tries a bad image, and pods that wait get nodes of the version that passed meanwhile."""
    metadata = {"labels": {labels.NODEPOOL: "default"}, "annotations": {labels.REVISION: "bad"}}
    refused_claim = claim("bad-1", meta=metadata, node_name="", nodeClassRef={"name": "default"})
    key = refused_claim.class_key
    breakers = by_key([refused(None, "", "InvalidAMIID", "gone", START, node_class=key)])
    assert by_pool(breakers, [in_version("good")]) == {}
    (breaker,) = by_pool(breakers, [in_version("bad")]).values()
    assert "EC2 refuses what EC2NodeClass default in version default-bad asks for" in sentence(breaker)


async def test_a_breaker_that_only_counts_holds_nothing_back_in_a_validation() -> None:
    """One instance that ended while it booted says little."""
    count = ended_booting(None, "Client.InternalError", "no key", "i-1", START, node_class="default")
    assert not is_open(count)

    async def answer() -> LaunchReport:
        return LaunchReport(breakers=[count])

    refusals = LaunchRefusals(now=lambda: START)
    refusals.ask = answer
    await refusals.refresh()
    assert refusals.breakers([node_pool("default")]) == {}


async def test_an_offering_that_a_plan_uses_again_stays_on_sale_when_the_workflow_is_asked() -> None:
    """The workflow hears of it from the plan's result. A newer refusal, which it knows, counts."""
    offering, refused_at = OfferingKey("spot", "m5.large", "us-west-2a"), START - timedelta(minutes=1)
    reported = {offering: Backoff(START + FIRST_PAUSE, refused_at, 1)}

    async def answer() -> LaunchReport:
        return LaunchReport(unavailable=grouped(reported))

    refusals = LaunchRefusals(now=lambda: START)
    refusals.ask = answer
    refusals.replace_unavailable(reported)
    refusals.reopen([offering])
    for _ in range(2):
        await refusals.refresh()
        assert set(refusals.unavailable()) == set()
    reported[offering] = Backoff(START + FIRST_PAUSE, START, 2)
    await refusals.refresh()
    assert set(refusals.unavailable()) == {offering}
    refusals.replace_unavailable(reported)
    await refusals.refresh()
    assert set(refusals.unavailable()) == {offering}
