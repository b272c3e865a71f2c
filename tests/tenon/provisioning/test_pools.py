"""NodePools as the engine sees them, and which of them may launch nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.common import Condition
from tenon.apis.conditions import READY, VALIDATION_SUCCEEDED, get_condition
from tenon.apis.nodepool import NODECLASS_READY, NodePool
from tenon.kube.taints import Taint
from tenon.provisioning.pools import scheduling_pool
from tenon.provisioning.readiness import pool_conditions, usable_pools, why_class_unready
from tenon.resources import parse_resources
from tests.activities.provisioning.fake_view import START, UNREADY, node_class, node_pool
from tests.tenon.scheduling.builders import CATALOG, catalog, entry

REQUIREMENTS = "template/spec/requirements"
REFERENCE = "template/spec/nodeClassRef"


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def kinds(*terms: dict[str, Any]) -> set[str]:
    pool = scheduling_pool(node_pool(edits={REQUIREMENTS: list(terms)}), CATALOG, {})
    return {kind.name for kind in pool.instance_types}


def test_every_type_is_allowed_unless_the_pool_says_otherwise() -> None:
    assert len(kinds()) == len(CATALOG)


def test_types_are_those_that_the_requirements_allow() -> None:
    """NP-06."""
    assert kinds(term(labels.INSTANCE_TYPE, "In", "m5.large", "c5.large")) == {"m5.large", "c5.large"}
    assert {name.partition(".")[0] for name in kinds(term(labels.ARCH, "In", "arm64"))} == {"c6g"}
    assert "m5.large" not in kinds(term("karpenter.k8s.aws/instance-cpu", "Gt", "2"))
    assert kinds(term(labels.ZONE, "In", "us-west-2z")) == set()
    assert kinds(term(labels.CAPACITY_TYPE, "In", "reserved")) == set()


def test_a_type_needs_one_offering_that_fits_zone_and_capacity_type_together() -> None:
    """Sold in the zone, and sold as spot, but not spot in the zone: it must not be planned."""
    mixed = entry("x1.large", 2, 4, 0.1)
    mixed["offerings"] = [
        {"zone": "us-west-2a", "capacityType": "on-demand", "price": 0.1},
        {"zone": "us-west-2b", "capacityType": "spot", "price": 0.04},
    ]
    terms = [term(labels.ZONE, "In", "us-west-2a"), term(labels.CAPACITY_TYPE, "In", "spot")]
    pool = scheduling_pool(node_pool(edits={REQUIREMENTS: terms}), catalog(mixed), {})
    assert pool.instance_types == []


def test_a_type_without_an_available_offering_is_left_out() -> None:
    removal = entry("x1.large", 2, 4, 0.1)
    for offering in removal["offerings"]:
        offering["available"] = False
    assert scheduling_pool(node_pool(), catalog(removal), {}).instance_types == []


def lacking(*terms: dict[str, Any], zones: frozenset[str] = frozenset()) -> str:
    return scheduling_pool(node_pool(edits={REQUIREMENTS: list(terms)}), CATALOG, {}, zones).why_lacking


def test_a_pool_that_no_type_meets_says_which_requirement_to_change() -> None:
    """SCH-108."""
    assert lacking(term(labels.ARCH, "In", "arm64")) == ""
    text = lacking(term(labels.ZONE, "In", "ap-northeast-1a"), term(labels.ARCH, "In", "arm64"))
    assert text == (
        "no available instance type meets its requirement topology.kubernetes.io/zone In [ap-northeast-1a] "
        "(available: us-west-2a, us-west-2b, us-west-2c)"
    )
    text = lacking(term(labels.ARCH, "In", "arm64"), term("karpenter.k8s.aws/instance-family", "In", "c5"))
    assert text.endswith("karpenter.k8s.aws/instance-family In [c5], kubernetes.io/arch In [arm64] at once")
    pair = lacking(term(labels.ARCH, "In", "s390x"), term(labels.CAPACITY_TYPE, "In", "reserved"))
    assert pair.count("meets its requirement") == 2
    place = frozenset({"us-west-2a"})
    text = lacking(term(labels.ZONE, "In", "us-west-2d"), zones=place)
    assert text == "zone us-west-2d is in no subnet of its EC2NodeClass (its subnets are in us-west-2a)"
    removal = scheduling_pool(node_pool(), [], {}, place).why_lacking
    assert removal == "no instance type is on sale in the zones of its subnets (us-west-2a)"


def test_the_pool_for_the_engine_has_its_labels_taints_limits_and_weight() -> None:
    pool = node_pool(
        "apps",
        {
            "template/metadata": {"labels": {"team": "a"}},
            "template/spec/taints": [{"key": "k", "value": "v", "effect": "NoExecute"}],
            "limits": {"cpu": "10", "nodes": "3"},
            "weight": 7,
        },
    )
    usage = {"cpu": 2000}
    result = scheduling_pool(pool, CATALOG, usage)
    assert (result.name, result.weight, result.usage) == ("apps", 7, usage)
    assert result.taints == (Taint("k", "NoExecute", "v"),)
    assert result.limits == parse_resources({"cpu": "10", "nodes": "3"})
    assert result.labels["team"] == "a"
    assert result.requirements.get("team").values == ("a",)
    assert result.requirements.get(labels.NODEPOOL).values == ("apps",)


def test_a_pool_without_limits_is_unlimited() -> None:
    """An empty limits object is no limit of zero."""
    assert scheduling_pool(node_pool(edits={"limits": {}}), CATALOG, {}).limits is None


UNRESOLVED = {**UNREADY, "type": "SubnetsReady", "message": "no subnet matches"}
CLASSES = {
    "default": node_class(),
    "unready": node_class("unready", {**UNREADY, "reason": "UnhealthyDependents"}, UNRESOLVED),
    "young": node_class("young", {**UNREADY, "status": "Unknown"}),
    "undecided": node_class("undecided", UNRESOLVED),
    "leaving": node_class("leaving", deletionTimestamp="2026-03-01T00:00:00Z"),
}
ALIEN = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}


def pool_of(class_name: str) -> NodePool:
    return node_pool(class_name, {f"{REFERENCE}/name": class_name})


@pytest.mark.parametrize(
    ("pool", "why"),
    [
        (pool_of("default"), ""),
        (pool_of("unready"), "no subnet matches"),
        (pool_of("young"), "not been resolved"),
        (pool_of("leaving"), "being deleted"),
        (pool_of("nowhere"), "does not exist"),
        (node_pool(edits={REFERENCE: ALIEN}), "AKSNodeClass"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.metadata.name,
)
def test_why_a_pool_cannot_launch_is_said_in_a_sentence(pool: NodePool, why: str) -> None:
    result = why_class_unready(pool, CLASSES.get)
    assert why in result
    assert bool(result) == bool(why)
    assert usable_pools([pool], CLASSES.get) == ([] if why else [pool])


def statuses(conditions: list[Condition]) -> dict[str, str]:
    return {condition.type: condition.status for condition in conditions}


INVALID = node_pool(
    edits={"disruption/budgets": [{"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}]}, generation=4
)


def test_a_good_pool_is_ready() -> None:
    conditions = pool_conditions(node_pool(), CLASSES.get, START)
    assert statuses(conditions) == {VALIDATION_SUCCEEDED: "True", NODECLASS_READY: "True", READY: "True"}


def test_an_invalid_pool_says_where() -> None:
    """`kubectl describe` names the field."""
    conditions = pool_conditions(INVALID, CLASSES.get, START)
    assert statuses(conditions) == {VALIDATION_SUCCEEDED: "False", NODECLASS_READY: "True", READY: "False"}
    condition = get_condition(conditions, VALIDATION_SUCCEEDED)
    assert condition is not None
    assert (condition.reason, condition.observed_generation) == ("NodePoolValidationFailed", 4)
    assert "schedule" in condition.message
    assert len(condition.message) <= 1000


@pytest.mark.parametrize(("length", "status"), [(63, "True"), (64, "False"), (253, "False")])
def test_a_pool_whose_name_no_node_can_carry_as_a_label_says_so(length: int, status: str) -> None:
    """The API server accepts the name, and would then refuse each of its NodeClaims."""
    pool = node_pool("a" * length)
    condition = get_condition(pool_conditions(pool, CLASSES.get, START), VALIDATION_SUCCEEDED)
    assert condition is not None
    assert condition.status == status
    assert ("metadata.name" in condition.message) is (status == "False")
    assert usable_pools([pool], CLASSES.get) == ([pool] if status == "True" else [])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unready", "UnhealthyDependents"),
        ("young", "NodeClassReadinessUnknown"),
        ("undecided", "NodeClassReadinessUnknown"),
        ("nowhere", "NodeClassNotFound"),
        ("leaving", "NodeClassTerminating"),
    ],
)
def test_nps4_a_pool_whose_class_cannot_be_used_is_not_ready_for_karpenters_reason(name: str, reason: str) -> None:
    """Alerts and health checks of GitOps tools select by the reason: of a class that is not ready, it is its own."""
    conditions = pool_conditions(pool_of(name), CLASSES.get, START)
    assert statuses(conditions) == {VALIDATION_SUCCEEDED: "True", NODECLASS_READY: "False", READY: "False"}
    condition = get_condition(conditions, NODECLASS_READY)
    assert condition is not None
    assert name in condition.message
    assert condition.reason == reason


def test_conditions_that_did_not_change_are_the_same_an_hour_later() -> None:
    """Else every look would write the status, and every write would cause a look."""
    pool = pool_of("unready")
    first = pool_conditions(pool, CLASSES.get, START)
    pool = pool.model_copy(update={"status": pool.status.model_copy(update={"conditions": first})})
    assert pool_conditions(pool, CLASSES.get, START + timedelta(hours=1)) == first


def test_a_pool_recovers_once_its_class_is_ready() -> None:
    pool = pool_of("unready")
    pool = pool.model_copy(
        update={"status": pool.status.model_copy(update={"conditions": pool_conditions(pool, CLASSES.get, START)})}
    )
    later = START + timedelta(hours=1)
    conditions = pool_conditions(pool, lambda _: node_class("unready"), later)
    assert set(statuses(conditions).values()) == {"True"}
    condition = get_condition(conditions, NODECLASS_READY)
    assert condition is not None
    assert (condition.last_transition_time, condition.message) == (later, "")
