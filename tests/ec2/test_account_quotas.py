"""The account's vCPU quotas as Service Quotas and EC2 say them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from activities.ec2.account_quotas import AccountQuotas
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.faults import Fault
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.refusals.known_quotas import QUOTA_CODES, ruled_out
from tenon.ec2.refusals.vcpu_quotas import STANDARD
from tenon.kube.offerings import OfferingKey
from tests.ec2.conftest import until_shown
from tests.ec2.samples import node_claim

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


@pytest.fixture
def quotas(clients: Ec2, provider: Ec2Provider, server: Server) -> Iterator[AccountQuotas]:
    yield AccountQuotas(clients, provider.catalogue.vcpus, lambda: datetime.now(UTC))
    server.world.fleets.quotas.clear()


def test_all_quotas_are_read_and_what_instances_use_of_them(
    quotas: AccountQuotas, provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """Service Quotas answers in pages."""
    before = quotas.read()
    assert before.quotas.keys() == set(QUOTA_CODES.values())
    only = ("node.kubernetes.io/instance-type", "In", ["m5.large"]), (labels.CAPACITY_TYPE, "In", ["spot"])
    instance = provider.launch(provider.prepare_launch(node_claim(*only, name="spot"), ready_class, 1)).instance
    assert instance is not None
    until_shown(server, instance.id)
    server.world.fleets.quotas.set("m5.large", labels.SPOT, 100)
    after = quotas.read()
    bucket = (labels.SPOT, STANDARD)
    assert (after.quotas[bucket].limit, after.quotas[bucket].used) == (100, before.quotas[bucket].used + 2)
    on_demand = (labels.ON_DEMAND, STANDARD)
    assert after.quotas[on_demand].used == before.quotas[on_demand].used


def test_a_quota_of_zero_rules_out_its_families(quotas: AccountQuotas, server: Server) -> None:
    server.world.fleets.quotas.set("m5.large", labels.ON_DEMAND, 0)
    assert ruled_out(quotas.read()) == {OfferingKey.of_quota(labels.ON_DEMAND, STANDARD)}


def test_a_missing_right_is_an_error_that_no_retry_mends(quotas: AccountQuotas, server: Server) -> None:
    server.world.faults.add(Fault(action="ListServiceQuotas", code="AccessDeniedException"))
    with pytest.raises(EC2Error) as caught:
        quotas.read()
    assert not caught.value.retryable
    assert "allow servicequotas:ListServiceQuotas in the IAM policy" in caught.value.explained
