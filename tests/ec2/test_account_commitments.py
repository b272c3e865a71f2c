"""The account's Reserved Instances and Savings Plans as AWS's calls say them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from activities.ec2.account_commitments import CACHE_SECONDS, AccountCommitmentsReader
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.authorization.identities import POLICY, with_commitments_policy
from sandbox.ec2.commitments import SHARE
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.conftest import until_shown
from tests.ec2.samples import node_claim

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

ZONE = "us-west-2a"


class Clock:
    """Seconds that a test sets."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def allowed(server: Server) -> Iterator[None]:
    server.world.judge.replace("sandbox", json.dumps(with_commitments_policy()))
    yield
    server.world.judge.clear()
    server.world.commitments.clear()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader(clients: Ec2, provider: Ec2Provider, clock: Clock) -> AccountCommitmentsReader:
    return AccountCommitmentsReader(clients, provider.catalogue.vcpus, lambda: datetime.now(UTC), clock)


@pytest.mark.usefixtures("allowed")
def test_what_was_bought_is_read_with_what_instances_use_of_it(
    reader: AccountCommitmentsReader, provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    bought = server.world.commitments
    bought.reserve("m5.xlarge", 2)
    bought.reserve("c5.large", 1, ZONE)
    bought.reserve("m5.large", 9, product="Windows")
    family_plan, plan = bought.commit(0.5, "m5"), bought.commit(1.25)
    before = {item.name: item for item in reader.read("sandbox", ()).allowed}
    assert {name: item.remaining for name, item in before.items()} == {
        f"Reserved Instances of c5.large in {ZONE}": 1,
        "Reserved Instances of m5": 1600,
        f"Savings Plan {family_plan}": 500_000,
        f"Savings Plan {plan}": 1_250_000,
    }
    assert list(before)[-1] == f"Savings Plan {plan}", "a plan for everything comes last, as AWS uses it"
    assert all(name.startswith("m5.") for name in before[f"Savings Plan {family_plan}"].units)
    price = server.world.prices.on_demand["c5.large"]
    assert before[f"Savings Plan {plan}"].units["c5.large"] == round(price * SHARE * 1e6)

    only = ("node.kubernetes.io/instance-type", "In", ["m5.large"]), (labels.CAPACITY_TYPE, "In", ["on-demand"])
    instance = provider.launch(provider.prepare_launch(node_claim(*only, name="covered"), ready_class, 1)).instance
    assert instance is not None
    until_shown(server, instance.id)
    others = {item.name: item.remaining for item in reader.read("another", ()).allowed}
    assert others["Reserved Instances of m5"] == 0, "the other cluster runs everything, so it has the whole share"
    for own_ids in ({instance.id}, set[str]()):  # its tags say whose it is before its NodeClaim has its ID
        own = {item.name: item.remaining for item in reader.read("sandbox", own_ids).allowed}
        assert own["Reserved Instances of m5"] == 1600


@pytest.mark.usefixtures("allowed")
def test_what_was_bought_is_read_once_an_hour(reader: AccountCommitmentsReader, server: Server, clock: Clock) -> None:
    reader.read("sandbox", ())
    server.world.commitments.reserve("m5.xlarge", 1)
    clock.seconds += CACHE_SECONDS - 1
    assert reader.read("sandbox", ()).allowed == ()
    clock.seconds += 1
    assert [item.name for item in reader.read("sandbox", ()).allowed] == ["Reserved Instances of m5"]


def test_the_policy_of_every_worker_does_not_allow_it(reader: AccountCommitmentsReader, server: Server) -> None:
    server.world.judge.replace("sandbox", POLICY.read_text())  # so that the refusal is expected
    with pytest.raises(EC2Error) as caught:
        reader.read("sandbox", ())
    assert caught.value.unauthorized
    assert "ec2:DescribeReservedInstances" in caught.value.explained
    server.world.judge.clear()


@pytest.mark.usefixtures("allowed")
def test_a_missing_right_on_savings_plans_is_named(reader: AccountCommitmentsReader, server: Server) -> None:
    document = with_commitments_policy()
    document["Statement"] = [item for item in document["Statement"] if item["Sid"] != "LookUpSavingsPlans"]
    server.world.judge.replace("sandbox", json.dumps(document))
    with pytest.raises(EC2Error) as caught:
        reader.read("sandbox", ())
    assert caught.value.unauthorized
    assert "savingsplans:DescribeSavingsPlans" in caught.value.explained
