"""Which NodePools and NodeClaims are Tenon's: the class that they name decides (NC-07, SCH-007)."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis.managed import is_managed, manages_claim, manages_pool, may_manage_node

OURS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
AUTO_MODE = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}


@pytest.mark.parametrize(
    ("reference", "managed"),
    [
        (OURS, True),
        (AUTO_MODE, False),
        ({**OURS, "group": "eks.amazonaws.com"}, False),
        ({**OURS, "kind": "NodeClass"}, False),
        ({"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default"}, True),
        ({"apiVersion": "karpenter.azure.com/v1beta1", "kind": "AKSNodeClass", "name": "default"}, False),
        ({"apiVersion": "eks.amazonaws.com/v1", "name": "default"}, False),
        ({"kind": "NodeClass", "name": "default"}, False),
        ({"name": "default"}, True),
        ({"group": "", "kind": "", "name": "default"}, True),
        ({}, True),
        (None, True),
    ],
)
def test_nc07_group_and_kind_decide_and_what_is_left_out_has_its_default(reference: Any, managed: bool) -> None:
    assert is_managed(reference) is managed
    assert manages_claim({"spec": {"nodeClassRef": reference}}) is managed
    assert manages_pool({"spec": {"template": {"spec": {"nodeClassRef": reference}}}}) is managed


def test_nc07_an_object_without_a_spec_is_read_on() -> None:
    """It is refused later, in words."""
    assert manages_claim({})
    assert manages_pool({})
    assert manages_pool({"spec": {"template": None}})


@pytest.mark.parametrize(
    ("node_labels", "ours"),
    [
        ({"karpenter.sh/nodepool": "web", "karpenter.k8s.aws/instance-family": "m5"}, True),
        ({"karpenter.k8s.aws/ec2nodeclass": "default"}, True),
        ({"karpenter.sh/nodepool": "general", "eks.amazonaws.com/instance-family": "m5"}, False),
        ({}, False),
    ],
)
def test_nc07_a_node_whose_claim_is_gone_is_known_by_the_labels_of_its_class(
    node_labels: dict[str, str], ours: bool
) -> None:
    assert may_manage_node(node_labels) is ours
