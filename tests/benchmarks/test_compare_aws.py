"""The comparison with what Karpenter publishes, on a small clone that has something of each kind."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import compare_aws
from benchmarks.compare_aws import CloneError, compare_fields, compare_instance_types, compare_prices, compare_rights
from tenon.apis.crd import custom_resource_definitions
from tools.cloudformation import POLICY, PSEUDO_PARAMETERS

NODEPOOLS = "karpenter.sh_nodepools.yaml"
PAGE = """
### `m5.large`
#### Labels
 | Label | Value |
 |--|--|
 |karpenter.k8s.aws/instance-cpu|2|
 |karpenter.k8s.aws/instance-memory|9999|
#### Resources
 | Resource | Quantity |
 |--|--|
 |cpu|1930m|
 |memory|6903Mi|
 |pods|30|
### `z99.large`
#### Labels
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in (compare_aws.STACK, compare_aws.TYPES, f"{compare_aws.PRICES}/x", f"{compare_aws.CRDS}/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    return tmp_path


def stack(clone: Path, change: dict[str, Any] | None = None, action: str = "") -> None:
    """Write a stack with Tenon's own policy, in which a statement is changed."""
    text = POLICY.read_text()
    for placeholder, parameter in PSEUDO_PARAMETERS.items():
        text = text.replace(placeholder, parameter)
    policy = json.loads(text)
    for statement in policy["Statement"]:
        if action and action in statement["Action"]:
            statement.update(change or {})
    body = json.dumps(policy, indent=1).replace("\n", "\n          ")
    (clone / compare_aws.STACK).write_text(
        "Resources:\n  Policy:\n    Type: AWS::IAM::ManagedPolicy\n    Properties:\n"
        f"      PolicyDocument: !Sub |\n          {body}\n"
    )


def test_equal_policies_have_no_differences_and_each_other_scope_is_named(clone: Path) -> None:
    stack(clone)
    assert not compare_rights(clone).differences
    stack(clone, {"Condition": {"StringEquals": {"aws:RequestedRegion": "x"}}}, "pricing:GetProducts")
    differences = compare_rights(clone).differences
    assert differences == {
        f"{action}, only {controller}": scope
        for action in ("pricing:GetProducts", "servicequotas:ListServiceQuotas")
        for controller, scope in (("Karpenter", ["* if StringEquals aws:RequestedRegion=x"]), ("Tenon", ["*"]))
    }


def test_labels_and_resources_of_types_are_compared(clone: Path) -> None:
    (clone / compare_aws.TYPES).write_text(PAGE)
    comparison = compare_instance_types(clone)
    assert comparison.compared == 1
    assert comparison.differences == {
        "karpenter.k8s.aws/instance-memory": ["m5.large 9999 (Tenon 8192)"],
        "pods": ["m5.large 30 (Tenon 29)"],
        "type that the sandbox's EC2 does not know": ["z99.large"],
    }


def test_prices_are_compared(clone: Path) -> None:
    text = 'var x = {\n\t"us-east-1": {\n\t\t"m5.large": 0.096, "m5.xlarge": 0.999,\n\t\t"z99.large": 1.0,\n\t},\n}\n'
    (clone / compare_aws.PRICES / "zz_generated.pricing_aws.go").write_text(text)
    comparison = compare_prices(clone)
    assert comparison.compared == 3
    (other, prices), (missing, types) = sorted(comparison.differences.items())
    assert (other.split(" (")[0], prices) == ("us-east-1, another price", ["m5.xlarge 0.999 (Tenon 0.192)"])
    assert (missing.split(" (")[0], types) == ("us-east-1, not in Tenon's table", ["z99.large"])


def test_fields_of_crds_are_compared(clone: Path) -> None:
    theirs: dict[str, Any] = copy.deepcopy(custom_resource_definitions()[NODEPOOLS])
    path = clone / compare_aws.CRDS / NODEPOOLS
    path.write_text(yaml.safe_dump(theirs))
    assert not compare_fields(clone).differences
    for version in theirs["spec"]["versions"]:
        if version["name"] == "v1":
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            spec["color"] = {"type": "string"}
            spec["weight"]["type"] = "string"
    path.write_text(yaml.safe_dump(theirs))
    assert compare_fields(clone).differences == {
        f"{NODEPOOLS} v1, not in Tenon": [".spec.color"],
        f"{NODEPOOLS} v1, type": [".spec.weight string (Tenon integer)"],
    }


@pytest.mark.parametrize("compare", compare_aws.COMPARISONS)
def test_a_folder_that_is_no_clone_is_refused(tmp_path: Path, compare: Any) -> None:
    with pytest.raises(CloneError, match=r"give the path of a clone of github\.com/aws/karpenter-provider-aws"):
        compare(tmp_path)


def test_of_many_differences_some_are_shown() -> None:
    comparison = compare_aws.Comparison("prices", 9)
    comparison.differences["missing"] = [f"t{number}" for number in range(7)]
    assert list(comparison.lines()) == [
        "prices: 9 compared, 7 different",
        "  missing (7): t0; t1; t2; t3; t4 and 2 more",
    ]
