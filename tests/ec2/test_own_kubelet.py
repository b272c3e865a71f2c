"""What older manifests mean for EC2: kubelet settings of a NodePool's own (V1B-04), Ubuntu without images (V1B-16)."""

from __future__ import annotations

import pytest

from activities.ec2.provider import Ec2Provider
from tenon.apis import labels
from tenon.apis.conditions import READY
from tenon.apis.ec2nodeclass import AMIS_READY, EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.apis.versions.objects import converted
from tenon.ec2.families.own_kubelet import own_kubelet, own_kubelet_errors, with_own_kubelet
from tenon.ec2.types.settings import kubelet_map
from tenon.provisioning.readiness import why_class_unready
from tests.ec2.samples import node_class
from tests.tenon.apis.case import is_false


def annotated(text: str) -> dict[str, str]:
    return {labels.V1BETA1_KUBELET: text, "other": "x"}


def test_v1b04_the_annotation_stands_for_all_settings_of_the_class() -> None:
    value = node_class({}, role="r", kubelet={"maxPods": 7, "podsPerCore": 2})
    own_kubelet = with_own_kubelet(value, annotated('{"maxPods":9,"containerRuntime":"containerd"}'))
    assert kubelet_map(own_kubelet) == {"maxPods": 9}
    assert kubelet_map(value) == {"maxPods": 7, "podsPerCore": 2}


@pytest.mark.parametrize("text", ["", "[", "5", "[]", '{"maxPods": "many"}', "[" * 100_000])
def test_v1b04_what_holds_no_settings_counts_for_nothing(text: str) -> None:
    value = node_class({}, role="r", kubelet={"maxPods": 7})
    assert with_own_kubelet(value, annotated(text)) is value
    (fault,) = own_kubelet_errors(value, annotated(text))
    assert "holds no kubelet settings" in fault


def test_v1b04_amounts_may_be_numbers_as_in_v1beta1() -> None:
    own = with_own_kubelet(node_class({}, role="r"), annotated('{"kubeReserved": {"cpu": 1, "memory": "1Gi"}}'))
    assert kubelet_map(own) == {"kubeReserved": {"cpu": "1", "memory": "1Gi"}}


def test_v1b04_ec14_what_the_class_may_not_have_the_pool_may_not_have_for_it() -> None:
    """And what is wrong with the class itself is told of the class alone."""
    bottlerocket = {"role": "r", "amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}
    (fault,) = own_kubelet_errors(node_class({}, **bottlerocket), annotated('{"podsPerCore": 2}'))
    assert labels.V1BETA1_KUBELET in fault
    assert "podsPerCore: does not work with Bottlerocket" in fault
    broken = node_class({}, **bottlerocket, kubelet={"podsPerCore": 2})
    assert own_kubelet_errors(broken, annotated('{"podsPerCore": 3}')) == []
    assert own_kubelet_errors(broken, {}) == []


@pytest.mark.integration
def test_v1b04_a_pool_whose_own_settings_cannot_be_used_says_so(ready_class: EC2NodeClass) -> None:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": ready_class.metadata.name}
    spec = {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}}
    pool = NodePool.model_validate({"metadata": {"name": "p"}, "spec": spec})
    assert why_class_unready(pool, lambda _: ready_class) == ""
    pool.metadata.annotations[labels.V1BETA1_KUBELET] = "no JSON"
    assert labels.V1BETA1_KUBELET in why_class_unready(pool, lambda _: ready_class)


def test_v1b04_without_annotation_nothing_is_carried() -> None:
    assert own_kubelet({"other": "x"}) == {}
    assert own_kubelet(annotated("{}")) == {labels.V1BETA1_KUBELET: "{}"}


@pytest.mark.integration
def test_v1b04_pools_of_one_class_have_types_of_their_own(provider: Ec2Provider, ready_class: EC2NodeClass) -> None:
    """Neither spoils what the other, or a plan in between, has worked out already."""
    plain = provider.instance_types(ready_class)
    own = with_own_kubelet(ready_class, annotated('{"maxPods": 9}'))
    assert {instance_type.capacity["pods"] for instance_type in provider.instance_types(own)} == {9}
    assert provider.instance_types(own) is provider.instance_types(own)
    assert provider.instance_types(ready_class) is plain


@pytest.mark.integration
def test_v1b16_nothing_launches_from_a_class_of_ubuntu_that_names_no_images(provider: Ec2Provider) -> None:
    """What such a class of v1beta1 is in v1 asks for an image that is none."""
    old = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "metadata": {"name": "u"}}
    selected = [{"tags": {"karpenter.sh/discovery": "sandbox"}}]
    spec = {"amiFamily": "Ubuntu", "role": "r", "subnetSelectorTerms": selected, "securityGroupSelectorTerms": selected}
    ec2_node_class = EC2NodeClass.model_validate(converted({**old, "spec": spec}, "karpenter.k8s.aws/v1"))
    status = provider.resolve_node_class(ec2_node_class)
    assert is_false(status.conditions, AMIS_READY)
    assert is_false(status.conditions, READY)
