"""Which NodePools count at the prices of dedicated instances (AWS-003, ALB-18)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from activities.provisioning.offerings import instance_types_by_pool
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.kube.offerings import OfferingKey
from tenon.scheduling.model import InstanceType
from tests.activities.provisioning.fake_view import FakeTypes, FakeView, node_pool

TENANCY = "karpenter.k8s.aws/instance-tenancy"


class AskedTypes(FakeTypes):
    """Remembers for which tenancy it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.dedicated: list[bool] = []

    def instance_types(
        self,
        node_class: EC2NodeClass,
        unavailable: frozenset[OfferingKey],
        *,
        unpriced: bool = False,
        dedicated: bool = False,
    ) -> Sequence[InstanceType]:
        self.dedicated.append(dedicated)
        return super().instance_types(node_class, unavailable, unpriced=unpriced, dedicated=dedicated)


def pool(name: str, operator: str = "", values: Sequence[str] = ()) -> NodePool:
    result = node_pool(name)
    if operator:
        term = {"key": TENANCY, "operator": operator, "values": list(values)}
        raw = result.model_dump(by_alias=True, exclude_none=True, mode="json")
        raw["spec"]["template"]["spec"].setdefault("requirements", []).append(term)
        result = NodePool.model_validate(raw)
    return result


@pytest.mark.parametrize(
    ("operator", "values", "dedicated"),
    [
        ("", [], False),
        ("In", ["default"], False),
        ("In", ["default", "dedicated"], False),
        ("In", ["dedicated"], True),
        ("NotIn", ["default"], True),
    ],
)
async def test_aws003_a_pool_that_excludes_shared_hardware_has_dedicated_prices(
    operator: str, values: list[str], dedicated: bool
) -> None:
    types = AskedTypes()
    await instance_types_by_pool(FakeView(), types, [pool("one", operator, values)])
    assert types.dedicated == [dedicated]


async def test_aws003_pools_of_a_class_share_types_only_in_the_same_tenancy() -> None:
    types = AskedTypes()
    pools = [pool("a"), pool("b", "In", ["dedicated"]), pool("c"), pool("d", "In", ["dedicated"])]
    overlaid = await instance_types_by_pool(FakeView(), types, pools)
    assert types.dedicated == [False, True]
    assert [item.metadata.name for item, _ in overlaid.pools_with_types] == ["a", "b", "c", "d"]
