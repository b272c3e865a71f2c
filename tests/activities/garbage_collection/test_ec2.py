"""What the sweep asks of EC2: tags that lead back to the node, and templates that go without harm."""

from __future__ import annotations

import pytest

from activities.ec2.client import Ec2
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.client import Ec2Admin
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.conftest import Administrator
from tests.ec2.samples import node_claim

pytestmark = pytest.mark.integration

NODECLAIM = "karpenter.sh/nodeclaim"


def bought(provider: Ec2Provider, node_class: EC2NodeClass, name: str) -> str:
    instance = provider.launch(provider.prepare_launch(node_claim(name=name), node_class, 1)).instance
    assert instance is not None
    return instance.id


def tags(clients: Ec2, instance_id: str) -> dict[str, str]:
    raw = clients.ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]
    return {tag["Key"]: tag["Value"] for tag in raw["Tags"]}


def test_aws122_an_instance_is_named_after_its_node_once(
    provider: Ec2Provider, clients: Ec2, admin: Administrator, ready_class: EC2NodeClass
) -> None:
    """AWS-122, ACT-03: by the claim's tag that is missing too; a second time there is nothing to write."""
    instance_id = bought(provider, ready_class, "named-1")
    admin.ec2.delete_tags(Resources=[instance_id], Tags=[{"Key": NODECLAIM}])
    assert provider.name_instance(instance_id, "named-1", "ip-10-0-0-7")
    result = tags(clients, instance_id)
    assert (result["Name"], result[NODECLAIM]) == ("ip-10-0-0-7", "named-1")
    admin_api = Ec2Admin(clients.ec2.meta.endpoint_url)
    count = len(admin_api.calls("CreateTags"))
    assert provider.name_instance(instance_id, "named-1", "ip-10-0-0-7")
    assert len(admin_api.calls("CreateTags")) == count


def test_aws122_a_name_of_the_users_stays(provider: Ec2Provider, clients: Ec2, ready_class: EC2NodeClass) -> None:
    """The EC2NodeClass may give a Name of its own."""
    spec = ready_class.spec.model_copy(update={"tags": {"Name": "our fleet"}})
    instance_id = bought(provider, ready_class.model_copy(update={"spec": spec}), "named-2")
    assert provider.name_instance(instance_id, "named-2", "ip-10-0-0-8")
    assert tags(clients, instance_id)["Name"] == "our fleet"


def test_aan02_an_instance_of_an_older_karpenter_gets_the_clusters_tag(
    provider: Ec2Provider, clients: Ec2, admin: Administrator, ready_class: EC2NodeClass
) -> None:
    """V1B-13: before 1.0 the cluster's name was in karpenter.sh/managed-by; by the new tag a sweep finds it."""
    instance_id = bought(provider, ready_class, "older-1")
    admin.ec2.delete_tags(Resources=[instance_id], Tags=[{"Key": "eks:eks-cluster-name"}])
    assert instance_id not in {observed_instance.id for observed_instance in provider.owned_instances()}
    assert provider.name_instance(instance_id, "older-1", "ip-10-0-0-6")
    assert instance_id in {observed_instance.id for observed_instance in provider.owned_instances()}


def test_an_instance_that_is_gone_is_not_tagged(provider: Ec2Provider, clients: Ec2, ready_class: EC2NodeClass) -> None:
    """Neither unknown nor ending instances; that is no error."""
    ended = bought(provider, ready_class, "named-3")
    provider.terminate(ended)
    assert not provider.name_instance(ended, "named-3", "ip-10-0-0-9")
    assert not provider.name_instance("i-0123456789abcdef0", "named-3", "ip-10-0-0-9")


def test_owned_instances_are_those_of_the_cluster(
    provider: Ec2Provider, clients: Ec2, admin: Administrator, ready_class: EC2NodeClass
) -> None:
    """A NodePool's tag is enough; another cluster's, and what carries neither, is not seen at all."""
    own, bare, foreign = (bought(provider, ready_class, f"owned-{number}") for number in range(3))
    admin.ec2.delete_tags(Resources=[bare], Tags=[{"Key": NODECLAIM}])
    admin.ec2.create_tags(Resources=[foreign], Tags=[{"Key": "eks:eks-cluster-name", "Value": "another"}])
    observed_instances = {observed_instance.id: observed_instance for observed_instance in provider.owned_instances()}
    assert {own, bare} <= observed_instances.keys()
    assert foreign not in observed_instances
    assert (observed_instances[own].claim, observed_instances[bare].claim) == ("owned-0", "")


def test_an_instance_names_the_launch_template_that_it_was_launched_from(
    provider: Ec2Provider, clients: Ec2, ready_class: EC2NodeClass
) -> None:
    """The sweep of a busy class keeps that template."""
    request = provider.prepare_launch(node_claim(name="used-1"), ready_class, 1)
    instance = provider.launch(request).instance
    assert instance is not None
    (template_id,) = [observed.template_id for observed in provider.owned_instances() if observed.id == instance.id]
    names = {template.id: template.name for template in provider.launch_templates()}
    assert names[template_id] in {template.name for template in request.templates}


def test_aws011_a_second_attempt_trusts_no_replicas_knowledge(
    provider: Ec2Provider, clients: Ec2, ready_class: EC2NodeClass
) -> None:
    """AWS-011: the sweep of one replica deletes what another has just taken to exist; one more attempt mends it."""
    other = Ec2Provider(clients, provider.cluster)
    other.catalogue = provider.catalogue
    request = other.prepare_launch(node_claim(name="stale-1"), ready_class, 1)
    for template in provider.launch_templates():
        assert provider.delete_launch_template(template)
        assert not provider.delete_launch_template(template)
    assert provider.launch(request).reason == "LaunchTemplateNotFound"  # told to this replica, not to the other
    again = other.prepare_launch(node_claim(name="stale-1"), ready_class, 2)
    assert again.client_token != request.client_token
    assert other.launch(again).instance is not None


def test_a_recreated_template_is_not_the_one_to_delete(
    provider: Ec2Provider, clients: Ec2, ready_class: EC2NodeClass
) -> None:
    """A launch makes the same name again between a sweep's look and its deletion: that one stays."""
    request = provider.prepare_launch(node_claim(name="anew-1"), ready_class, 1)
    templates = {template.name: template for template in provider.launch_templates()}
    old = templates[request.templates[0].name]
    provider.delete_launch_template(old)
    provider.prepare_launch(node_claim(name="anew-1"), ready_class, 2)
    assert not provider.delete_launch_template(old)
    assert old.name in {template.name for template in provider.launch_templates()}
