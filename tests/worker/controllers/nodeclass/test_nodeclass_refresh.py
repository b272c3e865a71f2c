"""SET-29, ACT-01: how often the leader looks at an EC2NodeClass, and when it has the class resolved."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY
from temporalio.client import Client

from activities.ec2.errors import EC2Error
from activities.ec2.nodeclass import UnansweredError
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from tenon.apis.hashing import ec2nodeclass_hashes
from tenon.ec2.families.cluster import Cluster
from tenon.kube.decode import decode_object
from tenon.kube.records import ObjectRecord
from tenon.kube.requirements import Requirements
from tests.activities.node.world import World
from tests.tenon.apis.case import NODEPOOL, edited, term
from tests.worker.background import in_background
from tests.worker.cache.objects import metadata
from tests.worker.fake_temporal import Cache, FakeTemporal
from worker.controllers.nodeclass.refresh import UNREADY_SECONDS, NodeClassRefreshController
from workflows import names

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

REFRESH_SECONDS, MARGIN = 600.0, 30.0
SPEC: dict[str, Any] = {
    "role": "nodes",
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": [{"id": "subnet-1"}],
    "securityGroupSelectorTerms": [{"id": "sg-1"}],
}


def status(subnet: str, *, ready: bool = True) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "Ready",
        "lastTransitionTime": "2026-11-21T12:00:00Z",
    }
    content = {"subnets": [{"id": subnet, "zone": "us-west-2a"}], "conditions": [condition]}
    return dict(EC2NodeClassStatus.model_validate(content).to_dict())


class Aws:
    """An account in which the class selects one subnet."""

    def __init__(self) -> None:
        self.cluster = Cluster(name="c", region="us-west-2")
        self.status = status("subnet-1")
        self.answers = True
        self.versions: list[str] = []
        self.pool_requirements: Sequence[Requirements] = ()
        self.user_data = 100

    def resolve_node_class(
        self, node_class: EC2NodeClass, kubernetes_version: str = "", pool_requirements: Sequence[Requirements] = ()
    ) -> EC2NodeClassStatus:
        self.versions.append(kubernetes_version)
        self.pool_requirements = pool_requirements
        present_status = EC2NodeClassStatus.model_validate(self.status)
        if not self.answers:
            raise UnansweredError(present_status, EC2Error("RequestLimitExceeded", "slow down", retryable=True))
        return present_status

    def refresh_seconds(self, node_class: EC2NodeClass) -> float:
        return REFRESH_SECONDS

    def price_warnings(self) -> list[str]:
        return []

    def user_data_bytes(self, node_class: EC2NodeClass) -> int:
        return self.user_data


def stored(
    aws: Aws, content: dict[str, Any], *, hashed: bool = True, annotations: dict[str, str] | None = None
) -> ObjectRecord:
    """The class as the API server has it."""
    body = {"metadata": metadata("default"), "spec": SPEC, "status": content}
    hashes = ec2nodeclass_hashes(EC2NodeClass.model_validate(body), aws.cluster.ca_bundle) if hashed else {}
    body["metadata"] = metadata("default", annotations={**hashes, **(annotations or {})})
    return decode_object(json.dumps(body).encode())


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def inline(call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    monkeypatch.setattr(asyncio, "to_thread", inline)


@contextlib.asynccontextmanager
async def looking(cache: Cache, aws: Aws) -> AsyncIterator[FakeTemporal]:
    temporal = FakeTemporal()

    async def version() -> str:
        return "1.37"

    controller = NodeClassRefreshController(
        cast("Client", temporal), cast("Any", cache), "c", World().recorder, aws, version
    )
    async with in_background(controller.run()):
        await asyncio.sleep(1)
        yield temporal


def pokes(temporal: FakeTemporal) -> int:
    return [workflow for workflow, _, _ in temporal.signals].count(names.nodeclass_id("c", "default"))


async def test_set29_a_class_is_looked_at_as_often_as_the_settings_say_and_costs_nothing() -> None:
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, aws.status))
    async with looking(cache, aws) as temporal:
        await asyncio.sleep(3 * REFRESH_SECONDS + MARGIN)
        assert aws.versions == ["1.37"] * 3
        assert pokes(temporal) == 0


async def test_aws167_a_look_tries_out_what_the_node_pools_of_the_class_select() -> None:
    """As the activity does. Otherwise each look would find another status, and poke the workflow again."""
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, aws.status))
    pool = edited(NODEPOOL, {"template/spec/requirements": [term(labels.INSTANCE_TYPE, "In", "m5.large")]})
    pool["metadata"] = metadata("web", generation=1)
    cache.pools.on_event("web", decode_object(json.dumps(pool).encode()))
    async with looking(cache, aws):
        await asyncio.sleep(REFRESH_SECONDS + MARGIN)
    (requirements,) = aws.pool_requirements
    assert requirements[labels.INSTANCE_TYPE].values == ("m5.large",)


async def test_act01_a_class_whose_subnets_changed_is_resolved_and_then_rests() -> None:
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, aws.status))
    async with looking(cache, aws) as temporal:
        aws.status = status("subnet-2")
        await asyncio.sleep(REFRESH_SECONDS)
        assert pokes(temporal) == 1
        cache.nodeclasses.on_event("default", stored(aws, aws.status))
        await asyncio.sleep(2 * REFRESH_SECONDS + MARGIN)
        assert pokes(temporal) == 1


async def test_a_status_that_stays_out_of_date_is_looked_at_soon_and_then_more_rarely() -> None:
    """The process that resolved it may remember old answers of AWS; a poke a minute for ever would be dear."""
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, status("subnet-0")))
    async with looking(cache, aws) as temporal:
        await asyncio.sleep(REFRESH_SECONDS + UNREADY_SECONDS + MARGIN)
        assert pokes(temporal) == 2
        await asyncio.sleep(3600)
        assert pokes(temporal) <= 10


async def test_a_class_that_is_not_ready_is_looked_at_each_minute() -> None:
    cache, aws = Cache(), Aws()
    aws.status = status("subnet-1", ready=False)
    cache.nodeclasses.on_event("default", stored(aws, aws.status))
    async with looking(cache, aws):
        await asyncio.sleep(5 * UNREADY_SECONDS + MARGIN)
        assert len(aws.versions) == 5


async def test_a_class_that_is_ready_no_longer_does_not_wait_for_the_look_of_a_ready_one() -> None:
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, aws.status))
    async with looking(cache, aws):
        await asyncio.sleep(UNREADY_SECONDS)
        assert not aws.versions
        aws.status = status("subnet-1", ready=False)
        cache.nodeclasses.on_event("default", stored(aws, aws.status))
        await asyncio.sleep(UNREADY_SECONDS + MARGIN)
        assert len(aws.versions) == 1


async def test_a_class_is_not_looked_at_after_a_teardown_which_would_create_its_instance_profile_again() -> None:
    cache, aws = Cache(), Aws()
    torn_down = {labels.TEARDOWN: "teardown"}
    cache.nodeclasses.on_event("default", stored(aws, aws.status, annotations=torn_down))
    async with looking(cache, aws):
        await asyncio.sleep(2 * REFRESH_SECONDS)
        assert not aws.versions
        cache.nodeclasses.on_event("default", stored(aws, aws.status))
        await asyncio.sleep(REFRESH_SECONDS + MARGIN)
        assert len(aws.versions) == 1, "the cluster lives on"


async def test_a_class_is_not_resolved_because_aws_does_not_answer() -> None:
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, aws.status))
    aws.answers = False
    async with looking(cache, aws) as temporal:
        await asyncio.sleep(2 * REFRESH_SECONDS + MARGIN)
        assert len(aws.versions) == 2
        assert pokes(temporal) == 0


async def test_a_class_is_resolved_at_the_first_look_for_which_aws_answers_a_part_although_another_is_open() -> None:
    """A look may create the class's instance profile, which EC2 does not know for seconds: no minute is lost."""
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, status("subnet-0", ready=False)))
    aws.answers = False
    async with looking(cache, aws) as temporal:
        await asyncio.sleep(UNREADY_SECONDS)
        assert pokes(temporal) == 1


async def test_a_class_that_lost_its_hash_is_resolved() -> None:
    """Drift compares NodeClaims with it."""
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, aws.status, hashed=False))
    async with looking(cache, aws) as temporal:
        await asyncio.sleep(REFRESH_SECONDS)
        assert pokes(temporal) == 1


async def test_a_class_that_is_gone_is_not_looked_at() -> None:
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, aws.status))
    async with looking(cache, aws):
        cache.nodeclasses.on_event("default", None)
        await asyncio.sleep(2 * REFRESH_SECONDS + MARGIN)
        assert not aws.versions


def size() -> float | None:
    return REGISTRY.get_sample_value("karpenter_ec2nodeclasses_userdata_bytes", {"nodeclass": "default"})


async def test_met58_the_leader_measures_the_user_data_until_the_class_is_gone() -> None:
    """A replica that only resolved the class would not hear of its end, and would alert for ever."""
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, aws.status))
    async with looking(cache, aws):
        assert size() == 100
        aws.user_data = 200
        cache.nodeclasses.on_event("default", stored(aws, aws.status))
        await asyncio.sleep(1)
        assert size() == 200
        cache.nodeclasses.on_event("default", None)
        await asyncio.sleep(1)
        assert size() == 0


async def test_met58_a_class_that_went_while_another_replica_led_has_no_user_data() -> None:
    cache, aws = Cache(), Aws()
    cache.nodeclasses.on_event("default", stored(aws, aws.status))
    async with looking(cache, aws):
        assert size() == 100
    async with looking(Cache(), aws):
        assert size() == 0
