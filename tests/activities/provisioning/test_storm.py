"""Half an hour without capacity, in virtual time: what six hundred pods that need a scarce node ask EC2 for.

The planner, the batcher, the memory of an io process and the rules by which the workflow keeps refusals are the real
ones. `tests/faults/drills/test_storm.py` shows a part of it on a real cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from activities.node.launch_breakers import LaunchBreakers
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.refusals import backoff
from tenon.ec2.refusals.known_quotas import KnownQuotas, VcpuQuota
from tenon.ec2.refusals.unavailable import backoffs_of, grouped
from tenon.ec2.refusals.vcpu_quotas import quota_of
from tenon.ec2.types.instance_types import without
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.timestamps import format_instant
from tenon.messages.offerings import OfferingRef
from tenon.messages.provisioning import PlanInput
from tenon.provisioning.launch_budget import START
from tenon.scheduling.model import InstanceType
from tests.activities.provisioning.fake_view import FakeTypes, node_pool
from tests.activities.provisioning.setting import Setting
from tests.tenon.scheduling.builders import asking, catalog, entry, need

GPUS = catalog(entry("g4dn.xlarge", 4, 16, 0.526), entry("g5.xlarge", 4, 16, 1.006))
PLAIN = catalog(entry("m5.xlarge", 4, 16, 0.192), entry("m6i.xlarge", 4, 16, 0.192))
WANTED = 600
STORM = timedelta(minutes=30)
BACK_WITHIN = timedelta(minutes=3)
ROUNDS_WITHIN = timedelta(seconds=75)
"""How long after the probe that succeeds the last node is launched."""
ANSWERS_AFTER, GONE_AFTER = timedelta(seconds=2), timedelta(seconds=1)
"""How long EC2 takes to answer a launch, and a refused NodeClaim to go."""
STEP = timedelta(seconds=1)


class StormTypes(FakeTypes):
    """GPUs and ordinary types, with what EC2 refused marked."""

    def instance_types(
        self,
        node_class: EC2NodeClass,
        unavailable: frozenset[OfferingKey],
        *,
        unpriced: bool = False,
        dedicated: bool = False,
    ) -> list[InstanceType]:
        return without([*GPUS, *PLAIN], unavailable)


@dataclass
class Launch:
    """A NodeClaim under way."""

    answered_at: datetime
    gone_at: datetime | None = None


@dataclass
class Cloud:
    """A cluster and an EC2 that refuses what ``refuses`` says. ``advance`` is the only clock."""

    at: Setting
    refuses: Collection[str] = ()
    """Beginnings of instance types."""
    capacity_types: Collection[str] = (labels.SPOT, labels.ON_DEMAND)
    """Those in which it refuses them."""
    by_quota: bool = False
    calls: list[tuple[datetime, str, int]] = field(default_factory=list)
    """When, capacity type, how many instances."""
    most_alive: int = 0
    launched: dict[str, datetime] = field(default_factory=dict)
    refused: dict[OfferingKey, backoff.Backoff] = field(default_factory=dict)
    """What the workflow keeps."""
    batch: int = 41

    def __post_init__(self) -> None:
        self.under_way: dict[str, Launch] = {}
        self.io = LaunchBreakers(lambda: self.at.now)

    async def advance(self, span: timedelta) -> None:
        end = self.at.now + span
        while self.at.now < end:
            self.at.now += STEP
            self._answer()
            self.refused = {
                key: item for key, item in self.refused.items() if not backoff.is_forgotten(item, self.at.now)
            }
            for key, reported in backoffs_of(self.io.report().unavailable).items():
                self.refused[key] = backoff.merged(self.refused.get(key), reported)
            if self.at.batcher.undecided():
                await self._plan()
            alive = sum(not claim.provider_id for claim in self.at.view.claims.values())
            self.most_alive = max(self.most_alive, alive)

    async def _plan(self) -> None:
        avoided = {key: item for key, item in self.refused.items() if item.is_active(self.at.now)}
        self.batch += 1
        plan_input = PlanInput(cluster="c", batch=self.batch, unavailable=grouped(avoided))
        planned = await self.at.planner.plan(plan_input)
        for key in (offering.key for offering in planned.reopened):
            self.refused[key] = backoff.launched(self.refused[key], self.at.now)
        for name in planned.claims:
            self.at.view.claims[name] = ClaimRecord.of(self._body(name))
            self.under_way[name] = Launch(self.at.now + ANSWERS_AFTER)

    def _body(self, name: str) -> dict[str, Any]:
        body = self.at.kube.objects[name]
        body["metadata"].setdefault("creationTimestamp", format_instant(self.at.now))
        return body

    def _answer(self) -> None:
        requests: dict[str, list[str]] = {}
        for name, launch in list(self.under_way.items()):
            if launch.gone_at is not None and self.at.now >= launch.gone_at:
                del self.under_way[name], self.at.kube.objects[name]
                self.at.view.without(name)
            elif launch.gone_at is None and self.at.now >= launch.answered_at and name not in self.launched:
                group = self._body(name)["metadata"]["annotations"].get(labels.LAUNCH_GROUP, name)
                requests.setdefault(group.partition("/")[0], []).append(name)
        for names in requests.values():
            self._request(names)

    def _request(self, names: list[str]) -> None:
        claim = self.at.view.claims[names[0]]
        kinds = {kind.name: kind for kind in without([*GPUS, *PLAIN], self.io.unavailable_to(claim))}
        offered = [
            OfferingKey(offering.capacity_type, name, offering.zone)
            for name in claim.instance_types
            for offering in kinds[name].offerings
            if offering.available and offering.capacity_type in _capacity_types(claim)
        ]
        capacity_type = labels.SPOT if any(key.capacity_type == labels.SPOT for key in offered) else labels.ON_DEMAND
        requested = [key for key in offered if key.capacity_type == capacity_type]
        if requested:
            self.calls.append((self.at.now, capacity_type, len(names)))
        refused = [key for key in requested if self._is_refused(key)]
        self.io.mark_unavailable(OfferingRef.of(key) for key in self._keys(refused))
        bought = next((key for key in requested if key not in refused), None)
        for name in names:
            if bought is None:
                self.under_way[name].gone_at = self.at.now + GONE_AFTER
                self.at.view.claims[name] = ClaimRecord.of(
                    {**self._body(name), "metadata": {**self._body(name)["metadata"], "deletionTimestamp": "now"}}
                )
            else:
                self._launched(name, bought)

    def _is_refused(self, key: OfferingKey) -> bool:
        return key.capacity_type in self.capacity_types and key.instance_type.startswith(tuple(self.refuses) or " ")

    def _keys(self, refused: Iterable[OfferingKey]) -> set[OfferingKey]:
        if not self.by_quota:
            return set(refused)
        return {
            OfferingKey.of_quota(key.capacity_type, quota_of(key.instance_type, key.capacity_type)) for key in refused
        }

    def _launched(self, name: str, bought: OfferingKey) -> None:
        body = self._body(name)
        condition = {"type": "Launched", "status": "True", "lastTransitionTime": format_instant(self.at.now)}
        body["metadata"]["labels"] |= {
            labels.INSTANCE_TYPE: bought.instance_type,
            labels.CAPACITY_TYPE: bought.capacity_type,
            labels.ZONE: bought.zone,
        }
        body["status"] = {"providerID": f"aws:///{bought.zone}/i-{name}", "conditions": [condition]}
        self.at.view.claims[name] = ClaimRecord.of(body)
        self.launched[name] = self.at.now
        uids = self.at.view.planned[name]
        self.at.view.pods = [pod for pod in self.at.view.pods if pod.uid not in uids]
        del self.under_way[name]


def _capacity_types(claim: ClaimRecord) -> list[str]:
    terms = (term["values"] for term in claim.spec["requirements"] if term["key"] == labels.CAPACITY_TYPE)
    return next(terms, [labels.SPOT, labels.ON_DEMAND])


def cloud(pods: Iterable[Pod], **more: Any) -> Cloud:
    at = Setting(*pods)
    at.types = StormTypes()
    at.view.pools = [node_pool(), node_pool("other")]
    at.restart()
    return Cloud(at, **more)


def gpu_pods(count: int, *requirements: Any) -> list[Pod]:
    gpus = need("karpenter.k8s.aws/instance-category", "In", "g"), need(labels.NODEPOOL, "In", "default")
    return [asking(f"gpu-{number}", *gpus, *requirements, cpu="3") for number in range(count)]


def plain_pods(count: int, pool: str) -> list[Pod]:
    plain = need("karpenter.k8s.aws/instance-category", "In", "m"), need(labels.NODEPOOL, "In", pool)
    return [asking(f"web-{pool}-{number}", *plain, cpu="3") for number in range(count)]


async def test_six_hundred_nodes_that_ec2_does_not_have_for_half_an_hour_cost_few_calls() -> None:
    """And all are launched three minutes after EC2 has them. Other pods lose no second, nor do other types."""
    storm = cloud(gpu_pods(WANTED), refuses=["g"])
    await storm.advance(STORM / 2)
    assert storm.most_alive <= START
    storm.at.view.add(*plain_pods(40, "other"), *plain_pods(40, "default"))
    before = len(storm.calls)
    await storm.advance(timedelta(seconds=4))
    assert len(storm.launched) == 80
    assert len(storm.calls) <= before + 3
    storm.most_alive = 0
    await storm.advance(STORM / 2)
    assert len(storm.launched) == 80, "no GPU"
    assert storm.most_alive <= 2
    assert len(storm.calls) <= 60, f"{len(storm.calls)} calls"
    tries = [at for at, capacity_type, _ in storm.calls if capacity_type == labels.SPOT]
    assert max(later - earlier for earlier, later in pairwise(tries)) <= timedelta(minutes=2)

    storm.refuses, back = (), storm.at.now
    await storm.advance(BACK_WITHIN)
    assert len(storm.launched) == 80 + WANTED
    rounds = [count for at, _, count in storm.calls if at > back]
    probe = next(at for at, _, _ in storm.calls if at > back)
    assert max(storm.launched.values()) - probe <= ROUNDS_WITHIN
    assert rounds[0] == 1, "one NodeClaim probes"
    assert max(rounds) <= 100


@pytest.mark.parametrize("capacity_type", [labels.SPOT, labels.ON_DEMAND])
async def test_a_used_up_quota_is_asked_for_by_one_nodeclaim_at_a_time(capacity_type: str) -> None:
    pods = gpu_pods(60, need(labels.CAPACITY_TYPE, "In", capacity_type))
    storm = cloud(pods, refuses=["g"], by_quota=True)
    await storm.advance(timedelta(minutes=10))
    assert storm.launched == {}
    assert storm.most_alive <= START
    assert len(storm.calls) <= 10
    storm.refuses = ()
    await storm.advance(BACK_WITHIN)
    assert len(storm.launched) == 60


async def test_a_spot_quota_of_one_group_of_families_leaves_spot_of_others_on() -> None:
    pods = [*gpu_pods(60), *plain_pods(60, "default")]
    storm = cloud(pods, refuses=["g"], capacity_types=[labels.SPOT], by_quota=True)
    await storm.advance(timedelta(minutes=2))
    assert len(storm.launched) == 120
    kinds = {
        (claim.labels[labels.INSTANCE_TYPE][0], claim.labels[labels.CAPACITY_TYPE])
        for claim in storm.at.view.claims.values()
    }
    assert kinds == {("g", labels.ON_DEMAND), ("m", labels.SPOT)}


async def test_the_back_off_outlives_the_process_that_plans() -> None:
    """The next leader has the refusals from the workflow, and begins with a probe, not with hundreds of NodeClaims."""
    storm = cloud(gpu_pods(WANTED), refuses=["g"])
    await storm.advance(timedelta(minutes=5))
    assert max(item.refusals for item in storm.refused.values()) >= 3
    before = len(storm.calls)
    storm.at.restart()
    storm.io = LaunchBreakers(lambda: storm.at.now)
    storm.most_alive = 0
    await storm.advance(timedelta(minutes=5))
    assert storm.most_alive == 1
    assert len(storm.calls) - before <= 10


async def test_an_ordinary_node_of_a_pool_in_a_storm_of_ordinary_types_launches_at_once() -> None:
    """EC2 refuses the one, and has the other: pods that need the other do not wait for those that need the one."""
    first = [asking(f"a-{n}", need(labels.INSTANCE_TYPE, "In", "m5.xlarge"), cpu="3") for n in range(100)]
    storm = cloud(first, refuses=["m5"])
    await storm.advance(timedelta(minutes=1))
    assert storm.launched == {}
    storm.most_alive = 0
    storm.at.view.add(*(asking(f"b-{n}", need(labels.INSTANCE_TYPE, "In", "m6i.xlarge"), cpu="3") for n in range(100)))
    await storm.advance(timedelta(seconds=4))
    assert len(storm.launched) == 100


async def test_pods_that_a_quota_has_no_room_for_do_not_wait_for_a_launch_round() -> None:
    """They would be told to wait for the launches before theirs. Those that fit as on-demand launch at once."""
    at = cloud(gpu_pods(START * 2)).at
    quotas = {(name, "G and VT"): VcpuQuota(8, 0) for name in (labels.SPOT, labels.ON_DEMAND)}
    at.planner._refusals.replace_quotas(KnownQuotas(at.now, quotas, {kind.name: 4 for kind in GPUS}))
    planned = await at.planner.plan(PlanInput(cluster="c", batch=41))
    asked_for = [next(iter(_capacity_types(ClaimRecord.of(at.kube.objects[name])))) for name in planned.claims]
    assert sorted(asked_for) == [labels.ON_DEMAND, labels.ON_DEMAND, labels.SPOT, labels.SPOT]
    assert planned.postponed == 0
    assert planned.unschedulable == START * 2 - 4


@pytest.mark.parametrize("lacks_gpus", [False, True])
async def test_a_quota_of_zero_concerns_only_pods_that_could_use_its_types(*, lacks_gpus: bool) -> None:
    """Most accounts have one. Pods that fit nowhere for another reason must not keep Tenon busy with it."""
    category = need("karpenter.k8s.aws/instance-category", "In", "g" if lacks_gpus else "m")
    at = cloud([asking("a", category, cpu="3" if lacks_gpus else "300")]).at
    quotas = {(name, "G and VT"): VcpuQuota(0, 0) for name in (labels.SPOT, labels.ON_DEMAND)}
    at.planner._refusals.replace_quotas(KnownQuotas(at.now, quotas, {kind.name: 4 for kind in GPUS}))
    pauses = []
    for batch in range(41, 51):
        planned = await at.planner.plan(PlanInput(cluster="c", batch=batch))
        assert (planned.unschedulable, planned.claims) == (1, [])
        assert at.planner._refusals.waits_for_quota() == lacks_gpus
        assert {group.scope_name for group in planned.over_quota} == ({"G and VT"} if lacks_gpus else set())
        began = at.now
        while not at.batcher.undecided():
            at.batcher.capacity_is_back()
            at.now += timedelta(seconds=5)
        pauses.append(at.now - began)
    assert max(pauses) >= timedelta(minutes=1), "no launch shows that they fit now"
