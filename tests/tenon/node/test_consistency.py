"""What a Node has too little of, compared with its NodeClaim."""

from __future__ import annotations

import pytest

from tenon.node.consistency import shortfalls
from tenon.resources import parse_resources

PROMISED = {"cpu": "4", "memory": "10Gi", "pods": "58", "vpc.amazonaws.com/pod-eni": "9", "nvidia.com/gpu": "0"}
REQUESTED = {"cpu": "1", "memory": "1Gi", "pods": "3"}


@pytest.mark.parametrize(
    ("requested", "actual_value", "names"),
    [
        (REQUESTED, {"cpu": "4", "memory": "10Gi", "pods": "58"}, []),
        (REQUESTED, {"cpu": "4", "memory": "9Gi", "pods": "58", "nvidia.com/gpu": "1"}, []),
        (
            REQUESTED,
            {"cpu": "4", "memory": "8Gi", "pods": "58"},
            ["expected 10Gi of resource memory, but found 8Gi (80.0% of expected)"],
        ),
        (
            REQUESTED,
            {"cpu": "2", "memory": "10Gi"},
            [
                "expected 4 of resource cpu, but found 2 (50.0% of expected)",
                "expected 58 of resource pods, but found 0 (0.0% of expected)",
            ],
        ),
        ({"cpu": "1", "memory": "0"}, {"cpu": "4"}, []),
        (
            {"vpc.amazonaws.com/pod-eni": "1", "nvidia.com/gpu": "1", "example.com/other": "1"},
            {"cpu": "4"},
            ["expected 9 of resource vpc.amazonaws.com/pod-eni, but found 0 (0.0% of expected)"],
        ),
    ],
)
def test_lif07_a_node_has_nine_tenths_of_each_requested_resource_promised(
    requested: dict[str, str], actual_value: dict[str, str], names: list[str]
) -> None:
    requests, nominated, result = map(parse_resources, (requested, PROMISED, actual_value))
    assert shortfalls(requests, nominated, result) == names


def test_lif07_a_claim_that_promises_nothing_is_met() -> None:
    assert shortfalls({"cpu": 1000}, {}, {"cpu": 4000}) == []
