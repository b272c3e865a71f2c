"""A capacity shortage: what pods and NodePools say while EC2 refuses one NodeClaim after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from activities.provisioning.batching import FIRST_RETRY
from activities.provisioning.solving import Solver
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.refusals.backoff import FIRST_PROBE_PAUSE, Backoff
from tenon.ec2.types.instance_types import without
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod_rules import PodRules, PodTerm
from tenon.kube.selectors import LabelSelector
from tenon.messages.explanation import Explanation
from tenon.messages.provisioning import PlanInput, UnavailableTypes
from tenon.provisioning.solving import solve_with_buffers
from tenon.scheduling.deadline import Expired
from tenon.scheduling.model import InstanceType, Plan, Problem
from tests.activities.provisioning.fake_view import FakeTypes, node_pool
from tests.activities.provisioning.setting import Setting
from tests.tenon.scheduling.builders import CATALOG, ON_DEMAND, asking, need, pod

UNAVAILABLE_FOR = timedelta(minutes=3)


class Shortage:
    """A planner whose NodeClaims EC2 refuses, 4 seconds after they were planned."""

    def __init__(self, at: Setting) -> None:
        self.at, self.batch = at, 41
        self.unavailable: dict[str, UnavailableTypes] = {}

    async def plan(self) -> list[str]:
        """Plan a batch with what EC2 refused so far. Return the types of its NodeClaim, the cheapest ones first."""
        unavailable = list(self.unavailable.values())
        planned = await self.at.planner.plan(PlanInput(cluster="c", batch=self.batch, unavailable=unavailable))
        self.batch += 1
        if not planned.claims:
            return []
        body = self.at.kube.objects[planned.claims[0]]
        why = Explanation.of(body["metadata"]["annotations"][labels.EXPLANATION])
        cheapest = why.types.partition(": ")[2].partition(" and ")[0].split(", ")
        return [*cheapest, *(name for name in self.at.types_of(planned.claims[0]) if name not in cheapest)]

    async def refuse(self, most: int = 2) -> Sequence[str]:
        """Plan a batch, of which EC2 refuses the NodeClaim with its cheapest types. Return these types."""
        types = await self.plan()
        (name,) = self.at.kube.objects
        self.at.now += timedelta(seconds=4)
        for item in types[:most]:
            self.unavailable[item] = UnavailableTypes(
                capacity_type="on-demand", zone="us-west-2a", instance_types=[item], until=self.at.now + UNAVAILABLE_FOR
            )
        self.at.view.without(name)
        del self.at.kube.objects[name]
        return types[:most]

    def said(self, reason: str) -> list[str]:
        """The messages of the pod's events with this reason."""
        return [message for _, name, why, message in self.at.recorder.events if (name, why) == ("a", reason)]


class MarkedTypes(FakeTypes):
    """Keeps refused types, with what EC2 refused marked, as the worker does."""

    def instance_types(
        self,
        node_class: EC2NodeClass,
        unavailable: frozenset[OfferingKey],
        *,
        unpriced: bool = False,
        dedicated: bool = False,
    ) -> Sequence[InstanceType]:
        return without(CATALOG, unavailable)


def shortage() -> Shortage:
    at = Setting(asking("a", ON_DEMAND, need(labels.ZONE, "In", "us-west-2a")))
    at.types = MarkedTypes()
    at.restart()
    return Shortage(at)


async def test_evt03_a_pod_says_what_ec2_lacks_after_its_second_refused_nodeclaim() -> None:
    """A single refused NodeClaim is part of daily work. The event names the next attempt, which is made now."""
    of = shortage()
    first = await of.refuse()
    await of.refuse()
    assert of.said("FailedScheduling") == []
    assert (await of.plan())[0] == "c6g.xlarge"
    assert of.said("FailedScheduling") == [
        f"EC2 has no on-demand capacity for 4 offerings tried ({first[0]} first); 2 NodeClaims found no capacity, and "
        "Tenon tries c6g.xlarge at $0.1360 an hour now"
    ]
    assert len(of.said("Nominated")) == 2, "the event of the third plan is the one about the shortage"


async def test_a_pod_says_it_after_its_first_refused_nodeclaim_if_the_next_one_is_far_dearer() -> None:
    """Such a node may cost as much in an hour as the usual one in a day."""
    of = shortage()
    await of.refuse(len(SMALL))
    waiting_for(of, *SMALL)
    dear = await of.plan()
    (name,) = of.said("FailedScheduling")
    assert f"; 1 NodeClaim found no capacity, and Tenon tries {dear[0]} at $" in name


async def test_a_pod_repeats_it_only_when_the_number_of_refused_nodeclaims_doubles() -> None:
    of = shortage()
    for _ in range(6):
        await of.refuse(1)
    await of.plan()
    assert [name.split("; ")[1].split()[0] for name in of.said("FailedScheduling")] == ["2", "4"]


async def test_a_pod_without_any_offering_left_says_what_ec2_refuses_once_and_when_the_next_attempt_is() -> None:
    """In the same words as `tenon explain pod`."""
    of = shortage()
    await of.refuse(len(CATALOG))
    assert await of.plan() == []
    (name,) = of.said("FailedScheduling")
    assert name.startswith(
        f"No node is bought for the pod: NodePool default: EC2 refuses {len(CATALOG)} on-demand offer"
    )
    assert name.count("next attempt at") == 1
    assert name.endswith("; `tenon explain pod default/a` says more")


async def test_a_nodeclaim_says_which_cheaper_types_ec2_refused() -> None:
    """It is the cheapest of what is left, not of what fits."""
    of = shortage()
    first = await of.refuse()
    await of.refuse()
    third = await of.plan()
    (body,) = of.at.kube.objects.values()
    choice = Explanation.of(body["metadata"]["annotations"][labels.EXPLANATION]).choice
    assert choice.startswith(f"{third[0]} in us-west-2a (on-demand): the cheapest of ")
    assert "types that hold 1 CPU and 1Gi and that EC2 did not refuse" in choice
    assert f"EC2 refused 4 cheaper types, {first[0]} at $" in choice


@pytest.mark.parametrize(("factor", "marked"), [(None, True), ("2", True), ("1000", False)])
async def test_a_nodeclaim_far_above_the_price_of_what_ec2_refused_is_marked(factor: str | None, marked: bool) -> None:
    """With the price of the cheapest refused type that holds its pods."""
    of = shortage()
    if factor is not None:
        of.at.view.pools = [node_pool(annotations={labels.SHORTAGE_PRICE_FACTOR: factor})]
    price = (await of.at.planner.plan(PlanInput(cluster="c", batch=40))).price
    (name,) = of.at.kube.objects
    of.at.view.without(name)
    del of.at.kube.objects[name]
    of.at.now += timedelta(seconds=4)
    small = [kind.name for kind in CATALOG if not kind.name.endswith((".8xlarge", ".16xlarge"))]
    until = of.at.now + UNAVAILABLE_FOR
    of.unavailable["all"] = UnavailableTypes(
        capacity_type="on-demand", zone="us-west-2a", instance_types=small, until=until
    )
    await of.plan()
    (body,) = of.at.kube.objects.values()
    annotations = body["metadata"]["annotations"]
    assert annotations.get(labels.BOUGHT_IN_SHORTAGE) == (f"{price:.4f}" if marked else None)


async def test_nodeclaims_that_end_for_another_reason_are_no_shortage() -> None:
    of = shortage()
    for _ in range(4):
        await of.refuse(0)
    await of.plan()
    assert of.said("FailedScheduling") == []


async def test_only_what_was_asked_for_is_named() -> None:
    of = Shortage(Setting(pod("a")))
    for _ in range(2):
        await of.refuse(0)
        until = of.at.now + UNAVAILABLE_FOR
        of.unavailable["spot"] = UnavailableTypes(capacity_type="spot", zone="", instance_types=[""], until=until)
        of.unavailable["quota"] = UnavailableTypes(
            capacity_type="on-demand", zone="", scope="quota", scope_name="Standard", instance_types=[""], until=until
        )
    await of.plan()
    (name,) = of.said("FailedScheduling")
    assert name.startswith("EC2 has no spot capacity at all (")
    assert labels.ON_DEMAND not in name, "only spot was asked for so far"


def waiting_for(of: Shortage, *names: str, seconds: int = 180) -> None:
    """EC2 refuses these types from now on."""
    until = of.at.now + timedelta(seconds=seconds)
    of.unavailable["all"] = UnavailableTypes(
        capacity_type="on-demand", zone="us-west-2a", instance_types=list(names), until=until
    )


SMALL = [kind.name for kind in CATALOG if not kind.name.endswith((".8xlarge", ".16xlarge", ".24xlarge"))]


def patient(**annotations: str) -> Shortage:
    """A shortage in which the NodePool has its pods wait."""
    of = shortage()
    of.at.view.pools = [node_pool(annotations={labels.SHORTAGE_POLICY: "Wait", **annotations})]
    waiting_for(of, *SMALL)
    return of


async def test_a_pod_waits_until_the_refusals_end_and_says_for_what() -> None:
    of = patient()
    assert await of.plan() == []
    (name,) = of.said("FailedScheduling")
    assert "pod: NodePool default: EC2 refused c6g.large at $0.0680 an hour, and the cheapest node left is " in name
    assert f": next attempt at {of.at.now + UNAVAILABLE_FOR:%Y-%m-%d %H:%M:%S} UTC; the pod waits because " in name
    assert of.at.batcher.undecided() == []
    of.at.now += UNAVAILABLE_FOR
    assert [pod.name for pod in of.at.batcher.undecided()] == ["a"]
    assert (await of.plan())[0] == "c6g.large"


async def test_a_refusal_that_ends_while_the_engine_solves_is_one_of_the_plan() -> None:
    """Or what EC2 refused would be neither on sale nor refused, and the pod would get the expensive node."""
    of = patient()

    def two_seconds(problem: Problem, expired: Expired) -> Plan:
        of.at.now += timedelta(seconds=2)
        return solve_with_buffers(problem, expired)

    of.at.restart(Solver(two_seconds))
    for _ in range(3):  # the pause of a pod that fits nowhere grows from plan to plan
        waiting_for(of, *SMALL, seconds=1)
        assert await of.plan() == []
        of.at.now += FIRST_RETRY
        assert [pod.name for pod in of.at.batcher.undecided()] == ["a"]
    assert (await of.plan())[0] == "c6g.large"


async def test_a_nodeclaim_may_ask_for_what_a_plan_bought_it_on_although_ec2_refuses_that_meanwhile() -> None:
    """Only EC2 knows whether it still has it. Otherwise the launch would buy something dearer without asking."""
    of = shortage()

    def refused_meanwhile(problem: Problem, expired: Expired) -> Plan:
        refused = Backoff(of.at.now + UNAVAILABLE_FOR, of.at.now, 1)
        of.at.batcher.refusals.replace_unavailable(
            {OfferingKey(labels.ON_DEMAND, name, "us-west-2a"): refused for name in SMALL}
        )
        return solve_with_buffers(problem, expired)

    of.at.restart(Solver(refused_meanwhile))
    assert (await of.plan())[0] == "c6g.large"
    (body,) = of.at.kube.objects.values()
    assert body["metadata"]["annotations"][labels.UNAVAILABLE_OFFERINGS] == "", (
        "the launch avoids nothing that it knows"
    )


async def test_a_pod_that_says_that_it_does_not_wait_gets_its_node_at_once() -> None:
    """Also if it says so while it waits."""
    of = patient()
    assert await of.plan() == []
    (waiting,) = of.at.view.pods
    of.at.view.pods = [replace(waiting, buys_in_shortage=True)]
    assert [pod.name for pod in of.at.batcher.undecided()] == ["a"]
    assert (await of.plan())[0] not in SMALL
    (body,) = of.at.kube.objects.values()
    assert body["metadata"]["annotations"][labels.BOUGHT_IN_SHORTAGE] == "0.0680"


async def test_the_workflow_hears_what_pods_wait_for_until_they_are_gone() -> None:
    """A plan for other pods does not end it."""
    of = patient()

    async def reported() -> list[tuple[str, int, str]]:
        plan_input = PlanInput(cluster="c", batch=of.batch, unavailable=list(of.unavailable.values()))
        of.batch += 1
        planned = await of.at.planner.plan(plan_input)
        return [(item.pool, item.pods, item.pod) for item in planned.waits]

    assert await reported() == [("default", 1, "default/a")]
    of.at.view.pods.append(asking("large", ON_DEMAND, need(labels.ZONE, "In", "us-west-2a"), cpu="30"))
    assert await reported() == [("default", 1, "default/a")]
    assert len(of.at.kube.objects) == 1
    del of.at.view.pods[0]
    assert await reported() == []


async def test_the_reason_of_a_pod_and_the_page_name_what_ec2_refuses() -> None:
    of = shortage()
    await of.refuse(len(CATALOG))
    unavailable = list(of.unavailable.values())
    planned = await of.at.planner.plan(PlanInput(cluster="c", batch=90, unavailable=unavailable))
    again = of.at.now + UNAVAILABLE_FOR
    (group,) = planned.pending
    assert (group.pods, group.count, group.has_place) == (["default/a"], 1, False)
    assert group.why.startswith(f"NodePool default: EC2 refuses {len(CATALOG)} on-demand offerings (")
    assert "next attempt" not in group.why  # the page names the time once, with what EC2 refuses
    event = of.said("FailedScheduling")[-1]
    assert group.why.partition(" (")[0] in event
    assert f"next attempt at {again:%Y-%m-%d %H:%M:%S} UTC" in event


def due_again(at: Setting, *names: str) -> PlanInput:
    """A batch that may ask EC2 again for these types, which it refused in one zone."""
    group = UnavailableTypes(
        capacity_type="on-demand",
        zone="us-west-2a",
        instance_types=list(names),
        until=at.now + timedelta(minutes=2),
        refused_at=at.now - FIRST_PROBE_PAUSE,
        refusals=1,
    )
    return PlanInput(cluster="c", batch=41, unavailable=[group])


async def test_a_nodeclaim_that_probes_says_that_it_avoids_nothing_else() -> None:
    """Or the process that launches it would still avoid what it probes."""
    zone, kind = need(labels.ZONE, "In", "us-west-2a"), need(labels.INSTANCE_TYPE, "In", "m5.large")
    at = Setting(asking("a", ON_DEMAND, zone, kind))
    at.types = MarkedTypes()
    at.restart()
    planned = await at.planner.plan(due_again(at, "m5.large"))
    annotations = [at.kube.objects[name]["metadata"]["annotations"] for name in planned.claims]
    assert [item.get(labels.UNAVAILABLE_OFFERINGS) for item in annotations] == [""]


async def test_a_refusal_that_ends_while_the_engine_solves_takes_no_probe_away() -> None:
    """The plan left out both types. A probe of the other one must not become an ordinary node of this one."""
    zone, kinds = need(labels.ZONE, "In", "us-west-2a"), need(labels.INSTANCE_TYPE, "In", "m5.large", "m5.xlarge")
    at = Setting(asking("a", ON_DEMAND, zone, kinds))
    at.types = MarkedTypes()

    def two_seconds(problem: Problem, expired: Expired) -> Plan:
        at.now += timedelta(seconds=2)
        return solve_with_buffers(problem, expired)

    at.restart(Solver(two_seconds))
    due = due_again(at, "m5.xlarge")
    ends = UnavailableTypes(
        capacity_type="on-demand",
        zone="us-west-2a",
        instance_types=["m5.large"],
        until=at.now + timedelta(seconds=1),
    )
    planned = await at.planner.plan(due.model_copy(update={"unavailable": [*due.unavailable, ends]}))
    assert [list(at.types_of(name)) for name in planned.claims] == [["m5.xlarge"]]


async def test_an_ec2nodeclass_that_goes_while_the_engine_solves_does_not_stop_the_plan() -> None:
    """Nothing asks EC2 for capacity for its NodePool any more."""
    at = Setting(
        asking("a", ON_DEMAND, need(labels.ZONE, "In", "us-west-2a"), need(labels.INSTANCE_TYPE, "In", "m5.large"))
    )
    at.types = MarkedTypes()

    def gone(problem: Problem, expired: Expired) -> Plan:
        at.view.classes.clear()
        return solve_with_buffers(problem, expired)

    at.restart(Solver(gone))
    planned = await at.planner.plan(due_again(at, "m5.large"))
    assert (planned.claims, planned.unschedulable) == ([], 1)


@pytest.mark.parametrize(
    "shared",
    [
        pytest.param({"rules": PodRules(anti_affinity=(PodTerm(labels.ZONE, LabelSelector()),))}, id="anti-affinity"),
        pytest.param({"exclusive": ("default/data",)}, id="ReadWriteOncePod"),
    ],
)
async def test_sch070_no_node_asks_for_capacity_for_a_pod_that_another_pod_of_the_plan_keeps_away(
    shared: Mapping[str, object],
) -> None:
    """kube-scheduler would bind it to no node in this zone, whatever EC2 answers."""
    zone, kinds = need(labels.ZONE, "In", "us-west-2a"), need(labels.INSTANCE_TYPE, "In", "m5.large", "m5.xlarge")
    at = Setting(*(asking(name, ON_DEMAND, zone, kinds, **shared) for name in ("a", "b")))
    at.types = MarkedTypes()
    at.restart()
    planned = await at.planner.plan(due_again(at, "m5.large"))
    assert [list(at.types_of(name)) for name in planned.claims] == [["m5.xlarge"]]
