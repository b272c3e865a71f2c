"""Every key of an expectation is looked at: a plan that differs in it fails the scenario."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.conformance.comparing import differences
from tests.conformance.scenario import Description, Expected

ZONE = "topology.kubernetes.io/zone"
CLAIM = {
    "name": "default-1",
    "nodePool": "default",
    "instanceTypes": ["c5.large", "m5.large"],
    "price": 0.085,
    "offering": {"instanceType": "c5.large", "zone": "us-west-2a", "capacityType": "on-demand"},
    "requirements": [{"key": ZONE, "operator": "In", "values": ["us-west-2a"], "minValues": 1}],
    "requests": {"cpu": "1500m", "memory": "2Gi", "pods": "2"},
    "pods": ["default/web-0", "default/web-1"],
    "why": "c5.large in us-west-2a (on-demand): the cheapest of 2 types that hold 1.5 CPU and 2Gi",
}
PLAN = {
    "nodeClaims": [CLAIM, {**CLAIM, "name": "default-2", "pods": ["default/web-2"], "requirements": []}],
    "existingNodes": [{"name": "n1", "pods": ["default/web-3"]}],
    "unschedulable": [{"pod": "default/huge", "reason": "NodePool default: needs 96 CPU"}],
    "totals": {"pricePerHour": 0.17, "lowerBoundPricePerHour": 0.16},
}
MANIFESTS = """
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {topology.kubernetes.io/zone: us-west-2b}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db}, spec: {nodeName: n1}}
"""
HUGE = {"default/huge": ["needs 96 CPU"]}
FIRST: dict[str, Any] = {"pods": ["default/web-1", "default/web-0"]}
SECOND: dict[str, Any] = {"pods": ["default/web-2"]}


def said(**expected: Any) -> list[str]:
    return list(differences(Expected.model_validate({"unschedulable": HUGE, **expected}), PLAN, MANIFESTS))


@pytest.mark.parametrize(
    "expected",
    [
        {"claimCount": 2},
        {"claims": [{"podCount": 1}, {}]},
        {"claims": [SECOND, {**FIRST, "pool": "default", "type": "c5.large", "zone": "us-west-2a"}]},
        {"claims": [SECOND, {**FIRST, "capacityType": "on-demand", "price": 0.085, "types": ["m5.large", "c5.large"]}]},
        {"claims": [SECOND, {**FIRST, "typesInOrder": ["c5.large", "m5.large"], "typeCount": 2}]},
        {"claims": [SECOND, {**FIRST, "typesInclude": ["m5.large"], "typesExclude": ["r5.large"]}]},
        {"claims": [SECOND, {**FIRST, "requires": [f"{ZONE} In us-west-2a minValues 1"], "lacks": ["team"]}]},
        {"claims": [SECOND, {**FIRST, "requests": {"cpu": "1.5", "memory": "2048Mi"}}]},
        {"claims": [SECOND, {**FIRST, "why": ["c5.large in us-west-2a", "the cheapest of 2 types"]}]},
        {"existing": {"n1": ["default/web-3"]}},
        {"together": [["default/web-0", "default/web-1"], ["default/db", "default/web-3"]]},
        {"apart": [["default/web-0", "default/web-2", "default/db"]]},
        {"perDomain": {ZONE: {"pods": "default/*", "counts": [2, 2]}}},
        {"perDomain": {"kubernetes.io/hostname": {"pods": "default/web-*", "counts": [1, 1, 2]}}},
        {"pricePerHour": 0.17, "pricePerBound": 1.07},
    ],
)
def test_what_holds_is_passed_over(expected: dict[str, Any]) -> None:
    assert said(**expected) == []


@pytest.mark.parametrize(
    ("expected", "fault"),
    [
        ({"claimCount": 1}, "claimCount: expected 1, got 2"),
        ({"claims": [FIRST]}, "claims: expected 1, got 2"),
        ({"claims": [FIRST, FIRST]}, "no claim is left"),
        ({"claims": [SECOND, {**FIRST, "podCount": 3}]}, "podCount is 2"),
        ({"claims": [SECOND, {**FIRST, "pool": "other"}]}, "pool is default"),
        ({"claims": [SECOND, {**FIRST, "type": "m5.large"}]}, "type is c5.large"),
        ({"claims": [SECOND, {**FIRST, "zone": "us-west-2b"}]}, "zone is us-west-2a"),
        ({"claims": [SECOND, {**FIRST, "capacityType": "spot"}]}, "capacityType is on-demand"),
        ({"claims": [SECOND, {**FIRST, "price": 0.08}]}, "price is 0.085"),
        ({"claims": [SECOND, {**FIRST, "types": ["c5.large"]}]}, "types is"),
        ({"claims": [SECOND, {**FIRST, "typesInOrder": ["m5.large", "c5.large"]}]}, "typesInOrder is"),
        ({"claims": [SECOND, {**FIRST, "typeCount": 3}]}, "typeCount is 2"),
        ({"claims": [SECOND, {**FIRST, "typesInclude": ["r5.large"]}]}, "types lack ['r5.large']"),
        ({"claims": [SECOND, {**FIRST, "typesExclude": ["m5.large"]}]}, "types have ['m5.large']"),
        ({"claims": [SECOND, {**FIRST, "requires": [f"{ZONE} NotIn us-west-2a"]}]}, "requirements lack"),
        ({"claims": [SECOND, {**FIRST, "requires": [f"{ZONE} In us-west-2a minValues 2"]}]}, "requirements lack"),
        ({"claims": [SECOND, {**FIRST, "lacks": [ZONE]}]}, f"requirements name {ZONE}"),
        ({"claims": [SECOND, {**FIRST, "why": ["the only type"]}]}, "why lacks 'the only type'"),
        ({"claims": [SECOND, {**FIRST, "requests": {"cpu": "2"}}]}, "requests differ in ['cpu']"),
        ({"existing": {}}, "existing: expected {}"),
        ({"existing": {"n1": ["default/web-3", "default/web-4"]}}, "existing: expected"),
        ({"unschedulable": {}}, "default/huge has no place"),
        ({"unschedulable": {**HUGE, "default/web-0": []}}, "default/web-0 is not"),
        ({"unschedulable": {"default/huge": ["needs memory"]}}, "'needs memory' is not in"),
        ({"together": [["default/web-0", "default/web-2"]]}, "together: "),
        ({"together": [["default/gone", "default/lost"]]}, "default/gone is on no node"),
        ({"apart": [["default/web-0", "default/web-1"]]}, "apart: "),
        ({"apart": [["default/web-0", "default/gone"]]}, "default/gone is on no node"),
        ({"perDomain": {ZONE: {"pods": "default/web-*", "counts": [1, 1, 2]}}}, "got [1, 2]"),
        ({"pricePerHour": 0.16}, "pricePerHour: expected 0.16, got 0.17"),
        ({"pricePerBound": 1.06}, "pricePerBound: expected at most 1.06"),
    ],
)
def test_unmet_expectations_are_reported(expected: dict[str, Any], fault: str) -> None:
    assert fault in "\n".join(said(**expected))


def test_each_pod_of_the_input_has_one_answer() -> None:
    expected = Expected.model_validate({"unschedulable": HUGE})
    names = [
        "{kind: Pod, metadata: {name: lost}, spec: {}}",
        "{kind: Deployment, metadata: {name: web}, spec: {replicas: 5}}",
        "{kind: List, items: [{kind: Pod, metadata: {name: listed, namespace: team}, spec: {}}]}",
    ]
    faults = list(differences(expected, PLAN, "\n---\n".join(names)))
    assert faults == [f"{pod} is nowhere in the plan" for pod in ("default/lost", "default/web-4", "team/listed")]
    twice = {**PLAN, "existingNodes": [{"name": "n1", "pods": ["default/web-0"]}]}
    assert list(differences(expected, twice, "")) == ["default/web-0 is in the plan 2 times"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"sets": {}},
        {"expect": {"claimCount": 1, "claim": []}},
        {"expect": {"claims": [{"podcount": 1}]}},
        {"expect": {}},
        {"expect": {"apart": [["default/a", "default/b"]]}},
        {"rows": []},
        {"status": 1},
        {"status": 2},
    ],
)
def test_a_description_that_says_too_much_or_too_little_is_refused(wrong: dict[str, Any]) -> None:
    sound = {"scenario": "x", "rows": ["SCH-001"], "expect": {"claimCount": 1}}
    Description.model_validate(sound)
    with pytest.raises(ValidationError):
        Description.model_validate(sound | wrong)
