"""Expressions in the kubelet settings of an EC2NodeClass, from condition to user data (EC-15, GAT-07)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.provider import Ec2Provider
from tenon.apis import labels
from tenon.apis.conditions import get_condition
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from tenon.apis.expressions import ExpressionError
from tenon.ec2.families import mime
from tenon.ec2.families.own_kubelet import own_kubelet_errors, with_own_kubelet
from tenon.ec2.types.capacity import NodeSettings
from tenon.ec2.types.expressions import evaluate_settings
from tenon.provisioning.gates import AwsFeatureGates
from tests.ec2.conftest import Administrator
from tests.ec2.samples import instance_type, item, node_claim, node_class

if TYPE_CHECKING:
    from sandbox.ec2.server import Server


ENI_LIMITED = "((default_enis - 1) * (ips_per_eni - 1)) + 2"
UNRESOLVED: dict[str, Any] = {"subnets": [], "securityGroups": [], "amis": [], "instanceProfile": None}


def kubelet_of(name: str, **kubelet: Any) -> dict[str, Any]:
    return dict(evaluate_settings(item(name), NodeSettings(kubelet=kubelet)).kubelet)


@pytest.mark.parametrize(("name", "pods"), [("m5.large", 20), ("c5.18xlarge", 688)])
def test_ec15_pods_follow_the_type(name: str, pods: int) -> None:
    assert kubelet_of(name, maxPods=ENI_LIMITED) == {"maxPods": pods}
    assert instance_type(name, settings=NodeSettings(kubelet={"maxPods": ENI_LIMITED})).capacity["pods"] == pods


def test_ec15_amounts_are_rounded_up_in_the_unit_of_their_resource() -> None:
    """To 10m of CPU and 16Mi of memory; what is a quantity stays as it is written."""
    result = kubelet_of(
        "m5.large",
        kubeReserved={"cpu": "vcpus * 33", "memory": "memory_mib / 100", "ephemeral-storage": "1 + 2", "pid": "10*10"},
        systemReserved={"cpu": "100m", "memory": "max(16, vcpus)"},
    )
    assert result["kubeReserved"] == {"cpu": "70m", "memory": "96Mi", "ephemeral-storage": "3Gi", "pid": "100"}
    assert result["systemReserved"] == {"cpu": "100m", "memory": "16Mi"}


def test_ec15_amounts_see_the_pods_that_came_of_the_settings() -> None:
    """maxPods itself sees what the type would have without it, at most podsPerCore for each vCPU."""
    reserved = {"memory": "max_pods * 16"}
    assert kubelet_of("m5.large", kubeReserved=reserved)["kubeReserved"] == {"memory": f"{29 * 16}Mi"}
    assert kubelet_of("m5.large", maxPods=12, kubeReserved=reserved)["kubeReserved"] == {"memory": f"{12 * 16}Mi"}
    result = kubelet_of("m5.large", maxPods="max_pods - 9", podsPerCore=9, kubeReserved=reserved)
    assert (result["maxPods"], result["kubeReserved"]) == (9, {"memory": f"{9 * 16}Mi"})


def test_ec15_plans_count_what_nodes_will_keep() -> None:
    by_hand = NodeSettings(kubelet={"maxPods": 20, "kubeReserved": {"cpu": "80m", "memory": "480Mi"}})
    computed = NodeSettings(
        kubelet={"maxPods": ENI_LIMITED, "kubeReserved": {"cpu": "vcpus * 38", "memory": "11 * max_pods + 255"}}
    )
    item, other = (instance_type("m5.large", settings=by_hand) for by_hand in (by_hand, computed))
    assert (item.capacity, item.overhead) == (other.capacity, other.overhead)


def test_ec15_a_type_without_a_value_is_named_with_the_expression() -> None:
    with pytest.raises(ExpressionError) as refused:
        kubelet_of("t3a.nano", systemReserved={"memory": "memory_mib - 1024"})
    assert str(refused.value) == (
        "kubelet.systemReserved[memory]: 'memory_mib - 1024' has no value for t3a.nano: it gives -512, and a number "
        "from 0 to 2147483647 is needed"
    )


@pytest.fixture(scope="module")
def gated(clients: Ec2) -> Ec2Provider:
    return Ec2Provider(clients, describe_cluster(clients, "sandbox"), gates=AwsFeatureGates(node_class_cel=True))


def written(**kubelet: Any) -> EC2NodeClass:
    return node_class(UNRESOLVED, role="KarpenterNodeRole-sandbox", kubelet=kubelet)


def validation(status: EC2NodeClassStatus) -> tuple[str, str]:
    condition = get_condition(status.conditions, "ValidationSucceeded")
    assert condition is not None
    return condition.reason, condition.message


@pytest.mark.integration
def test_gat07_without_the_gate_a_class_with_expressions_is_not_ready(provider: Ec2Provider) -> None:
    reason, message = validation(provider.resolve_node_class(written(maxPods=ENI_LIMITED)))
    assert reason == "KubeletExpressionsDisabled"
    assert message.startswith("kubelet.maxPods: expressions are read with AWS_FEATURE_GATES=NodeClassCEL=true only")
    assert validation(provider.resolve_node_class(written(maxPods=20)))[0] == "ValidationSucceeded"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kubelet", "reason", "words"),
    [
        ({"maxPods": "min(110, pods)"}, "KubeletExpressionInvalid", "spec.kubelet.maxPods: 'min(110, pods)' is no"),
        (
            {"kubeReserved": {"memory": "memory_mib - 1024"}},
            "KubeletExpressionEvaluationFailed",
            "kubelet.kubeReserved[memory]: 'memory_mib - 1024' has no value for ",
        ),
        ({"maxPods": "1000 / (vcpus - vcpus)"}, "KubeletExpressionEvaluationFailed", "divide by zero"),
        ({"maxPods": ENI_LIMITED}, "ValidationSucceeded", ""),
    ],
)
def test_ecs7_an_expression_is_tried_on_every_type_before_a_node_is_bought(
    gated: Ec2Provider, kubelet: dict[str, Any], reason: str, words: str
) -> None:
    result, message = validation(gated.resolve_node_class(written(**kubelet)))
    assert result == reason
    assert words in message


def configs(server: Server, admin: Administrator, names: list[str]) -> list[dict[str, Any]]:
    """The kubelet settings in the user data of launch templates."""
    result = []
    for name in names:
        versions = admin.ec2.describe_launch_template_versions(LaunchTemplateName=name, Versions=["$Latest"])
        data = versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]["UserData"]
        ((_, text),) = mime.parts_of(base64.b64decode(data).decode())
        result.append(yaml.safe_load(text)["spec"]["kubelet"]["config"])
    return result


@pytest.mark.integration
def test_ec15_user_data_has_the_numbers_and_equal_results_share_a_template(
    gated: Ec2Provider, admin: Administrator, server: Server
) -> None:
    unresolved = written(maxPods="min(50, max_pods)", systemReserved={"cpu": "vcpus * 10", "memory": "100Mi"})
    changed_unresolved = unresolved.model_copy(update={"status": gated.resolve_node_class(unresolved)})
    types = ["m5.xlarge", "m5a.xlarge", "m5.2xlarge"]
    claim = node_claim(("node.kubernetes.io/instance-type", "In", types), name="computed-1")
    request = gated.prepare_launch(claim, changed_unresolved, 1)
    by_types = {frozenset(row.instance_type for row in t.overrides): t.name for t in request.templates}
    assert by_types.keys() == {frozenset(types[:2]), frozenset(types[2:])}
    events = configs(server, admin, [by_types[frozenset(types[:2])], by_types[frozenset(types[2:])]])
    assert [config["maxPods"] for config in events] == [50, 50]
    assert [config["systemReserved"] for config in events] == [
        {"cpu": "40m", "memory": "100Mi"},
        {"cpu": "80m", "memory": "100Mi"},
    ]


def test_ec15_settings_of_an_older_pool_hold_no_expressions() -> None:
    annotations = {labels.V1BETA1_KUBELET: '{"maxPods": "min(50, max_pods)"}'}
    value = node_class(kubelet={"maxPods": 7})
    assert with_own_kubelet(value, annotations) is value
    (fault,) = own_kubelet_errors(value, annotations)
    assert "or expressions, which an EC2NodeClass takes" in fault
