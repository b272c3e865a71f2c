"""The pods that stand for the floor of a NodePool."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.provisioning.buffers import unit_requests
from tenon.provisioning.floors import MAX_PARTS, floors
from tenon.resources import parse_resources
from tenon.schedule.desired import NOTHING, PoolDemand
from tests.activities.provisioning.fake_view import node_pool

POOL = node_pool("ci")


def test_nothing_stands_for_no_floor() -> None:
    assert floors(POOL, NOTHING) == {}


@given(st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(1, 2**45), min_size=1))
def test_the_parts_of_spare_resources_are_at_least_what_is_asked_and_hardly_more(spare: dict[str, int]) -> None:
    (parts,) = floors(POOL, PoolDemand(floor_spare=spare)).values()
    assert 1 <= parts.count <= MAX_PARTS
    assert parts.template is not None
    requests = unit_requests(parts.template)
    for name, units in spare.items():
        assert units <= requests[name] * parts.count < units + parts.count


@pytest.mark.parametrize(
    ("spare", "parts"),
    [
        ({"cpu": "500m"}, 1),
        ({"cpu": "4"}, 4),
        ({"cpu": "1", "memory": "32Gi"}, 8),
        ({"cpu": "1000"}, 100),
        ({"cpu": "8", "nvidia.com/gpu": "2"}, 2),
    ],
)
def test_parts_are_about_a_cpu_or_4gi(spare: dict[str, str], parts: int) -> None:
    (resolved,) = floors(POOL, PoolDemand(floor_spare=parse_resources(spare))).values()
    assert resolved.count == parts


def test_only_nodes_of_the_nodepool_can_hold_its_floor_also_tainted_ones() -> None:
    taint = {"key": "team", "value": "ci", "effect": "NoSchedule"}
    pool = node_pool("ci", {"template/spec/taints": [taint]})
    (nodes,) = floors(pool, PoolDemand(floor_nodes=3)).values()
    assert nodes.count == 3
    assert nodes.template is not None
    spec = nodes.template["spec"]
    assert spec["nodeSelector"] == {"karpenter.sh/nodepool": "ci"}
    assert spec["tolerations"] == [{"key": "team", "operator": "Exists", "effect": "NoSchedule"}]
