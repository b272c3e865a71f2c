"""The labels of a claim once its instance is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenon.apis import labels
from tenon.ec2.launch.launched_labels import launched_labels
from tests.tenon.scheduling.builders import CATALOG, catalog, entry, need
from tests.workflows.fake_activities import INSTANCE

CLAIM: dict[str, Any] = {
    "spec": {
        "requirements": [
            {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.large", "m5.xlarge"]},
            {"key": labels.ZONE, "operator": "In", "values": ["us-west-2a", "us-west-2b"]},
            {"key": "team", "operator": "In", "values": ["a"]},
            {"key": "colour", "operator": "In", "values": ["red", "blue"]},
            {"key": "size", "operator": "Exists"},
        ]
    }
}
KIND = next(kind for kind in CATALOG if kind.name == "m5.large")


def test_the_instance_decides_what_the_claim_left_open() -> None:
    """LIF-02, LIF-03: the Node registers with exactly these labels, so pods that wait for them are bound."""
    result = launched_labels(CLAIM, INSTANCE, KIND)
    assert result[labels.INSTANCE_TYPE] == "m5.large"
    assert result[labels.ZONE] == "us-west-2a"
    assert result[labels.CAPACITY_TYPE] == "on-demand"
    assert result[labels.ARCH] == "amd64"
    assert result["karpenter.k8s.aws/instance-family"] == "m5"
    assert result["team"] == "a"


def test_sch026_the_node_of_a_claim_without_a_nodepool_has_one_of_the_listed_values() -> None:
    """Plans let pods that accept any of them wait for the node, and kube-scheduler binds those to none without it."""
    assert launched_labels(CLAIM, INSTANCE, KIND)["colour"] == "blue"


def test_sch026_a_value_that_the_claim_has_already_stays() -> None:
    """Karpenter labels the claim with any of the values, and leaves all of them in its requirements."""
    claim = {**CLAIM, "metadata": {"labels": {"colour": "red"}}}
    assert "colour" not in launched_labels(claim, INSTANCE, KIND)


def test_what_is_still_open_becomes_no_label() -> None:
    """A label that must merely exist, or one of several values that its type decides, is nothing that the node has."""
    gpu = {"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["a10g", "t4"]}
    claim = {"spec": {"requirements": [*CLAIM["spec"]["requirements"], gpu]}}
    assert not {"size", gpu["key"]} & set(launched_labels(claim, INSTANCE, KIND))
    described = replace(KIND, requirements=KIND.requirements.with_(need("colour", "In", "red", "blue")))
    assert "colour" not in launched_labels(claim, INSTANCE, described), "types decide this label"


def test_a_zone_id_comes_from_the_offering_of_the_instances_own_zone() -> None:
    described = entry("m5.large", 2, 8, 0.1)
    for number, offering in enumerate(described["offerings"]):
        offering["zoneId"] = f"usw2-az{number}"
    (kind,) = catalog(described)
    zone_id = next(o.zone_id for o in kind.offerings if o.zone == "us-west-2b")
    result = launched_labels(CLAIM, INSTANCE.model_copy(update={"zone": "us-west-2b"}), kind)
    assert result[labels.ZONE_ID] == zone_id
    assert zone_id


def test_a_type_that_the_catalogue_lost_still_has_its_offering() -> None:
    """Taking a life up again must not fail because EC2 describes the type no more."""
    assert launched_labels({}, INSTANCE, None) == {
        labels.INSTANCE_TYPE: "m5.large",
        labels.ZONE: "us-west-2a",
        labels.CAPACITY_TYPE: "on-demand",
        labels.TENANCY: "default",
    }


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["dedicated"], "dedicated"),
        ("NotIn", ["default"], "dedicated"),
        ("In", ["dedicated", "default"], "default"),
        ("Exists", [], "default"),
    ],
)
def test_aws003_alb18_dedicated_only_where_default_is_excluded(operator: str, values: list[str], expected: str) -> None:
    claim = {"spec": {"requirements": [{"key": labels.TENANCY, "operator": operator, "values": values}]}}
    assert launched_labels(claim, INSTANCE, KIND)[labels.TENANCY] == expected
