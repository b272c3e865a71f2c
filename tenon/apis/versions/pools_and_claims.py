"""The parts of NodePool and NodeClaim of karpenter.sh, and how each is converted."""

from __future__ import annotations

from tenon.apis.json_object import JsonObject
from tenon.apis.nodeclaim import NodeClaimSpec
from tenon.apis.nodepool import Budget, Disruption, NodePoolSpec, TemplateSpec
from tenon.apis.versions.parts import Part, Values
from tenon.apis.versions.shared import node_parts, only_v1, same, taken_by

_TEMPLATE = ("spec", "template", "spec")
_DISRUPTION = ("spec", "disruption")
_POLICY = {name: (*_DISRUPTION, name) for name in ("consolidationPolicy", "consolidateAfter")}
_BUDGETS = {"budgets": (*_DISRUPTION, "budgets")}
_DISRUPTION_TAKES = taken_by(Disruption)
_CLAIM_TAKES = taken_by(NodeClaimSpec)
_DROPPED_CONDITIONS = ("Empty", "Expired")
_CONDITIONS = {"conditions": ("status", "conditions")}


def consolidation_up(values: Values) -> Values:
    """Rename WhenUnderutilized. In v1beta1 it had no delay, so consolidateAfter is 0s (V1B-01, V1B-02)."""
    if values.get("consolidationPolicy") != "WhenUnderutilized":
        return values
    return {"consolidateAfter": "0s", **values, "consolidationPolicy": "WhenEmptyOrUnderutilized"}


def consolidation_down(values: Values) -> Values:
    """Return a policy that v1beta1 accepts: without WhenEmpty, consolidateAfter can only be Never or absent."""
    if values.get("consolidationPolicy") == "WhenEmpty":
        return {"consolidateAfter": "0s", **values}
    policy = {"consolidationPolicy": "WhenUnderutilized"} if "consolidationPolicy" in values else {}
    return {**policy, "consolidateAfter": "Never"} if values.get("consolidateAfter") == "Never" else policy


def budget_down(budget: JsonObject) -> JsonObject:
    """Drop the reasons, which v1beta1 does not have: there a budget holds for all reasons (V1B-03)."""
    return {name: value for name, value in budget.items() if name != "reasons"}


def conditions_up(values: Values) -> Values:
    """Drop the conditions that v1 no longer has (V1B-08)."""
    conditions = values.get("conditions")
    if not isinstance(conditions, list):
        return values
    return {"conditions": [c for c in conditions if not (isinstance(c, dict) and c.get("type") in _DROPPED_CONDITIONS)]}


NODEPOOL = (
    Part(
        "expireAfter",
        {"expireAfter": (*_TEMPLATE, "expireAfter")},
        {"expireAfter": (*_DISRUPTION, "expireAfter")},
        same,
        same,
    ),
    Part("consolidation", _POLICY, _POLICY, consolidation_up, consolidation_down, takes=_DISRUPTION_TAKES),
    Part("budgets", _BUDGETS, _BUDGETS, same, budget_down, by_item=True, takes=taken_by(Budget)),
    *node_parts(_TEMPLATE, taken_by(TemplateSpec)),
    only_v1("replicas", ("spec", "replicas"), taken_by(NodePoolSpec)),
    Part("resources", {}, {"resources": (*_TEMPLATE, "resources")}, lambda _: {}, same),
)

NODECLAIM = (
    only_v1("expireAfter", ("spec", "expireAfter"), _CLAIM_TAKES),
    *node_parts(("spec",), _CLAIM_TAKES),
    Part("conditions", _CONDITIONS, _CONDITIONS, conditions_up, same),
)
