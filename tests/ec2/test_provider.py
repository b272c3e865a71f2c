"""Launching, finding and ending instances on the sandbox's EC2."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.errors import (
    InsufficientCapacityError,
    NodeClassNotReadyError,
    NodeClassReadinessUnknownError,
)
from activities.ec2.instances import Instances
from activities.ec2.launch import Launcher
from activities.ec2.launch_templates import LaunchTemplates
from activities.ec2.provider import Ec2Provider
from tenon.apis.ec2nodeclass import AMI, EC2NodeClass
from tenon.apis.labels import ARCH, LEARNED_MEMORY
from tenon.ec2.launch.filters import NoImageError
from tenon.evolve import evolve
from tenon.kube.claim_record import instance_id_of
from tenon.kube.offerings import OfferingKey
from tenon.messages.launch import Instance, LaunchRequest
from tests.ec2.conftest import Administrator, until_shown
from tests.ec2.samples import node_claim, node_class

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

MISSING = "i-0123456789abcdef0"
TYPE = "node.kubernetes.io/instance-type"


def request_for(
    provider: Ec2Provider, node_class: EC2NodeClass, name: str, *terms: tuple[str, str, list[str]]
) -> LaunchRequest:
    return provider.prepare_launch(node_claim(*terms, name=name), node_class, 1)


def calls(server: Server, action: str) -> int:
    return len(server.world.calls.listing(action))


def empty_pools(server: Server, **rule: Any) -> None:
    from sandbox.ec2.market import CapacityRule

    server.world.market.set_capacity(CapacityRule(**rule))


def test_refused_offerings_are_marked(provider: Ec2Provider, ready_class: EC2NodeClass) -> None:
    """AWS-041: without spoiling what other callers get."""
    refused = {OfferingKey("spot", "m5.large", "us-west-2a")}
    marked = {instance_type.name: instance_type for instance_type in provider.instance_types(ready_class, refused)}[
        "m5.large"
    ]
    survivors = {instance_type.name: instance_type for instance_type in provider.instance_types(ready_class)}[
        "m5.large"
    ]
    assert [o.zone for o in marked.offerings if not o.available] == ["us-west-2a"]
    assert all(offering.available for offering in survivors.offerings)


def test_a_changed_class_gets_its_own_types(provider: Ec2Provider, ready_class: EC2NodeClass) -> None:
    """AWS-063: the same name with other kubelet settings is planned with other figures."""
    changed = node_class(ready_class.status.to_dict(), role="KarpenterNodeRole-sandbox", kubelet={"maxPods": 7})
    assert {instance_type.capacity["pods"] for instance_type in provider.instance_types(changed)} == {7}


def with_amis(ready_class: EC2NodeClass, suffix: str, *archs: str) -> EC2NodeClass:
    """The class with an image for each architecture."""
    amis = [
        AMI.model_validate(
            {"id": f"ami-{arch}{suffix}", "requirements": [{"key": ARCH, "operator": "In", "values": [arch]}]}
        )
        for arch in archs
    ]
    return evolve(ready_class, status=evolve(ready_class.status, amis=amis))


def test_types_that_no_image_boots_are_listed_with_their_prices_and_not_for_sale(
    provider: Ec2Provider, ready_class: EC2NodeClass
) -> None:
    """Nodes of such a type run already, and keep their price."""
    amd_only = {kind.name: kind for kind in provider.instance_types(with_amis(ready_class, "-1", "amd64"))}
    all_types = {kind.name: kind for kind in provider.instance_types(with_amis(ready_class, "-1", "amd64", "arm64"))}
    assert amd_only.keys() == all_types.keys()
    assert not any(offering.available for offering in amd_only["t4g.small"].offerings)
    prices = [offering.price for offering in all_types["t4g.small"].offerings]
    assert [offering.price for offering in amd_only["t4g.small"].offerings] == prices
    assert all(offering.available for offering in [*amd_only["m5.large"].offerings, *all_types["t4g.small"].offerings])


def test_aws033_a_newer_image_of_the_same_kind_gives_the_same_types(
    provider: Ec2Provider, ready_class: EC2NodeClass
) -> None:
    """The scheduling engine remembers what it computed for a list."""
    first = provider.instance_types(with_amis(ready_class, "-1", "amd64"))
    assert provider.instance_types(with_amis(ready_class, "-2", "amd64")) is first
    learned = evolve(
        ready_class,
        metadata=evolve(ready_class.metadata, annotations={LEARNED_MEMORY: '{"ami-amd64-1": {"t4g.small": 1000}}'}),
    )
    types = {kind.name: kind for kind in provider.instance_types(with_amis(learned, "-1", "amd64"))}
    assert not types["t4g.small"].has_image, "what nodes teach changes nothing about the images"


def test_a_claim_that_no_image_boots_is_no_want_of_capacity(provider: Ec2Provider, ready_class: EC2NodeClass) -> None:
    with pytest.raises(NoImageError, match=r"^no image of EC2NodeClass default \(ami-amd64-1\) boots arm64$"):
        request_for(provider, with_amis(ready_class, "-1", "amd64"), "arm", (TYPE, "In", ["t4g.small"]))


def test_launch_find_and_end(provider: Ec2Provider, server: Server, clients: Ec2, ready_class: EC2NodeClass) -> None:
    """AWS-004..015: what was asked for is what runs, and its tags lead back to the claim."""
    request = request_for(provider, ready_class, "life-1", ("karpenter.sh/capacity-type", "In", ["on-demand"]))
    bought = provider.launch(request).instance
    assert bought is not None
    until_shown(server, bought.id)
    instance = provider.launch(request).instance
    assert instance is not None
    assert instance.provider_id == f"aws:///{instance.zone}/{instance.id}"
    assert instance.private_dns_name
    assert instance.capacity_type == "on-demand"
    offered = {(row.instance_type, row.zone): row.price for t in request.templates for row in t.overrides}
    assert instance.price == offered[instance.instance_type, instance.zone] > 0
    assert provider.find_instance("life-1") is not None
    owned = {observed_instance.id: observed_instance.claim for observed_instance in provider.owned_instances()}
    assert owned[instance.id] == "life-1"
    raw = clients.ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    assert raw["IamInstanceProfile"]["Arn"].endswith(str(ready_class.status.instance_profile))
    assert [group["GroupName"] for group in raw["SecurityGroups"]] == ["sandbox-nodes"]
    assert instance.subnet_id == raw["SubnetId"]
    assert instance.security_group_ids == tuple(group["GroupId"] for group in raw["SecurityGroups"])
    assert provider.terminate(instance.id) in ("shutting-down", "terminated")
    assert provider.terminate(instance.id) in ("shutting-down", "terminated")
    assert provider.find_instance("life-1") is None


def test_aws007_the_newest_version_of_a_template_is_launched(
    provider: Ec2Provider, server: Server, admin: Administrator, ready_class: EC2NodeClass
) -> None:
    """Also when the default version of the template stays the first one."""
    request = request_for(provider, ready_class, "newest-1", ("karpenter.sh/capacity-type", "In", ["on-demand"]))
    for template in request.templates:
        first = admin.ec2.describe_launch_template_versions(LaunchTemplateName=template.name, Versions=["1"])
        data: Any = first["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        newer = data | {"Monitoring": {"Enabled": True}}
        admin.ec2.create_launch_template_version(LaunchTemplateName=template.name, LaunchTemplateData=newer)
    instance = provider.launch(request).instance
    provider.delete_launch_templates("default")
    assert instance is not None
    until_shown(server, instance.id)
    raw = admin.ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    assert raw["Monitoring"]["State"] == "enabled"


def test_aws008_aws092_all_that_a_launch_creates_has_tags(
    provider: Ec2Provider, server: Server, admin: Administrator, ready_class: EC2NodeClass
) -> None:
    """Fleet, instance and volume name the claim. The interface and the template serve others too, and name the pool."""
    request = request_for(provider, ready_class, "tagged-1", ("karpenter.sh/capacity-type", "In", ["on-demand"]))
    instance = provider.launch(request).instance
    assert instance is not None
    until_shown(server, instance.id)
    raw = admin.ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    own = {tag["Key"]: tag["Value"] for tag in raw["Tags"]}
    volume = raw["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    names = tags_of(admin, own["aws:ec2:fleet-id"], instance.id, volume)
    assert [result["karpenter.sh/nodeclaim"] for result in names] == ["tagged-1"] * 3
    shared = tags_of(admin, raw["NetworkInterfaces"][0]["NetworkInterfaceId"], own["aws:ec2launchtemplate:id"])
    assert ["karpenter.sh/nodeclaim" in result for result in shared] == [False] * 2
    for outcome in (*names, *shared):
        assert outcome["karpenter.sh/nodepool"] == "default"
        assert outcome["kubernetes.io/cluster/sandbox"] == "owned"
    assert raw["MetadataOptions"]["InstanceMetadataTags"] == "disabled", "no pod reads them from the instance"


def tags_of(admin: Administrator, *resources: str) -> list[dict[str, str]]:
    """The tags of each of these resources."""
    listed = admin.ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": list(resources)}])["Tags"]
    return [{tag["Key"]: tag["Value"] for tag in listed if tag["ResourceId"] == resource} for resource in resources]


def test_aws013_the_provider_id_names_zone_and_instance(
    provider: Ec2Provider, server: Server, admin: Administrator, ready_class: EC2NodeClass
) -> None:
    """As the cloud provider of AWS writes it on the Node, or the NodeClaim never finds its Node."""
    instance = provider.launch(request_for(provider, ready_class, "named-1")).instance
    assert instance is not None
    until_shown(server, instance.id)
    raw = admin.ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    text = f"aws:///{raw['Placement']['AvailabilityZone']}/{instance.id}"
    assert instance.provider_id == text
    result = provider.find_instance("named-1")
    assert result is not None
    assert result.provider_id == text
    assert instance_id_of(text) == instance.id


def test_aws102_a_launch_for_an_ipv6_cluster(clients: Ec2, admin: Administrator, ready_class: EC2NodeClass) -> None:
    """The instance gets an IPv6 address, and its user data names the DNS address of the IPv6 service range."""
    cluster = replace(describe_cluster(clients, "sandbox"), service_cidr="fd30:1c53:5f8a::/108", dns_ip="")
    provider = Ec2Provider(clients, cluster)
    request = provider.prepare_launch(node_claim(name="six"), ready_class, 1)
    assert provider.launch(request).instance is not None
    name = request.templates[0].name
    version = admin.ec2.describe_launch_template_versions(LaunchTemplateName=name, Versions=["$Latest"])
    data = version["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    (interface,) = data["NetworkInterfaces"]
    assert interface["Ipv6AddressCount"] == 1
    assert "fd30:1c53:5f8a::a" in base64.b64decode(data["UserData"]).decode()


def test_aws012_few_types_on_demand_are_logged(
    provider: Ec2Provider, ready_class: EC2NodeClass, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    anywhere = ("karpenter.sh/capacity-type", "In", ["spot", "on-demand"])
    refused = {
        OfferingKey("spot", instance_type.name, offering.zone)
        for instance_type in provider.instance_types(ready_class)
        for offering in instance_type.offerings
        if offering.capacity_type == "spot"
    }
    for names, warnings in ((["m5.large"], 1), ([], 0)):
        caplog.clear()
        terms = [anywhere, *([(TYPE, "In", names)] if names else [])]
        request = provider.prepare_launch(node_claim(*terms, name="narrow"), ready_class, 1, refused)
        assert request.capacity_type == "on-demand"
        assert sum("few instance types" in record.message for record in caplog.records) == warnings


def test_what_is_not_there_is_no_error(provider: Ec2Provider) -> None:
    """AWS-015, AWS-046: EC2 judges rights by tags, which a missing instance does not have."""
    assert provider.terminate(MISSING) is None
    assert provider.instance_state(MISSING) is None
    assert provider.describe_instance(MISSING) is None
    assert provider.find_instance("never-launched") is None


def test_a_repeated_request_buys_once(provider: Ec2Provider, server: Server, ready_class: EC2NodeClass) -> None:
    """AWS-010, improved: even when the first answer was lost on its way."""
    from sandbox.ec2.faults import Fault

    request = request_for(provider, ready_class, "twice-1")
    server.world.faults.add(Fault(action="CreateFleet", code="InternalError", status=500, after_effect=True))
    first = provider.launch(request)
    until_shown(server, *([first.instance.id] if first.instance else []))
    second = provider.launch(request)
    assert first.instance is not None
    assert second.instance is not None
    assert first.instance.id == second.instance.id
    assert [
        observed_instance.id for observed_instance in provider.owned_instances() if observed_instance.name == "twice-1"
    ] == [first.instance.id]


def test_a_token_with_another_request_finds_what_it_bought(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """A rebuilt request of the same attempt adopts the instance instead of failing for ever."""
    request = request_for(provider, ready_class, "rebuilt-1")
    first = provider.launch(request)
    until_shown(server, *([first.instance.id] if first.instance else []))
    changed = provider.launch(request.model_copy(update={"tags": {**request.tags, "new": "tag"}}))
    assert first.instance is not None
    assert changed.instance is not None
    assert changed.instance.id == first.instance.id


def test_no_capacity_anywhere_names_every_offering(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """AWS-040, AWS-041: the refused offerings, and then nothing is left to prepare."""
    term = (TYPE, "In", ["m5.large"])
    on_demand = ("karpenter.sh/capacity-type", "In", ["on-demand"])
    request = request_for(provider, ready_class, "ice-1", term, on_demand)
    empty_pools(server, instance_type="m5.large")
    result = provider.launch(request)
    assert result.instance is None
    assert result.message
    refused = {item.key for item in result.unavailable}
    assert refused == {OfferingKey("on-demand", "m5.large", f"us-west-2{letter}") for letter in "abcd"}
    with pytest.raises(InsufficientCapacityError):
        provider.prepare_launch(node_claim(term, on_demand, name="ice-1"), ready_class, 2, refused)


def test_one_empty_pool_is_passed_over(provider: Ec2Provider, server: Server, ready_class: EC2NodeClass) -> None:
    """AWS-005: EC2 falls back inside one request."""
    empty_pools(server, instance_type="m5.large")
    terms = ((TYPE, "In", ["m5.large", "m6i.2xlarge"]), ("karpenter.sh/capacity-type", "In", ["on-demand"]))
    result = provider.launch(request_for(provider, ready_class, "fallback-1", *terms))
    assert result.instance is not None
    assert result.instance.instance_type == "m6i.2xlarge"


def test_s7_launches_at_the_same_time_make_each_template_once(
    clients: Ec2, provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """Each of them needs the same templates, and none may go on before these exist."""
    from sandbox.ec2.held_calls import Hold

    at_once = 12
    fresh = Ec2Provider(clients, provider.cluster)
    fresh.instance_types(ready_class)
    fresh.delete_launch_templates(ready_class.metadata.name)
    server.world.calls.clear()
    server.world.holds.add(Hold(action="CreateLaunchTemplate"))
    with ThreadPoolExecutor(at_once) as threads:
        prepared = [threads.submit(request_for, fresh, ready_class, f"herd-{number}") for number in range(at_once)]
        while not server.world.holds.waiting():
            pass
        server.world.holds.release()
        requests = [item.result() for item in prepared]
    launch_template_names = [
        call["parameters"]["LaunchTemplateName"] for call in server.world.calls.listing("CreateLaunchTemplate")
    ]
    assert len(launch_template_names) == len(set(launch_template_names))
    assert {template.name for request in requests for template in request.templates} == set(launch_template_names)


def test_templates_are_made_once(provider: Ec2Provider, server: Server, ready_class: EC2NodeClass) -> None:
    """AWS-090: the second claim of a pool finds the first one's."""
    request_for(provider, ready_class, "shared-1")
    server.world.calls.clear()
    request_for(provider, ready_class, "shared-2")
    assert calls(server, "CreateLaunchTemplate") == 0


def test_a_template_that_exists_already_is_as_good(
    clients: Ec2, provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """AWS-090: another replica may have made it."""
    request_for(provider, ready_class, "replica-1")
    other = Ec2Provider(clients, provider.cluster)
    other.catalogue = provider.catalogue
    server.world.calls.clear()
    assert request_for(other, ready_class, "replica-2").templates
    assert calls(server, "CreateLaunchTemplate") > 0


def test_a_deleted_template_is_made_again(
    provider: Ec2Provider, admin: Administrator, ready_class: EC2NodeClass
) -> None:
    """AWS-011: the launch says so, the next attempt's preparation mends it."""
    request = request_for(provider, ready_class, "mend-1")
    assert provider.delete_launch_templates("default") > 0
    assert provider.delete_launch_templates("default") == 0
    result = provider.launch(request)
    assert result.reason == "LaunchTemplateNotFound"
    mended = provider.prepare_launch(node_claim(name="mend-1"), ready_class, 2)
    assert provider.launch(mended).instance is not None
    name = mended.templates[0].name
    version = admin.ec2.describe_launch_template_versions(LaunchTemplateName=name, Versions=["$Latest"])
    data = version["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert "karpenter.sh/unregistered" in base64.b64decode(data["UserData"]).decode()
    assert data["MetadataOptions"]["HttpTokens"] == "required"


def test_refusals_have_reasons(provider: Ec2Provider, server: Server, ready_class: EC2NodeClass) -> None:
    """AWS-049: a refusal that no retry mends is a result, not an error."""
    from sandbox.ec2.faults import Fault

    request = request_for(provider, ready_class, "refused-1")
    server.world.faults.add(Fault(action="CreateFleet", code="UnauthorizedOperation", status=403, message="no"))
    result = provider.launch(request)
    assert (result.instance, result.unavailable, result.reason) == (None, [], "Unauthorized")


class Late(Instances):
    """An EC2 that shows a new instance only when it has been asked some times."""

    def __init__(self, clients: Ec2, provider: Ec2Provider, denials: int) -> None:
        super().__init__(clients, "sandbox", provider.catalogue.price)
        self.denials = denials

    def describe(self, instance_id: str) -> Instance | None:
        self.denials -= 1
        return None if self.denials >= 0 else super().describe(instance_id)


def test_an_instance_that_ec2_does_not_show_yet(provider: Ec2Provider, clients: Ec2, ready_class: EC2NodeClass) -> None:
    """AWS-014: EC2 may deny for a moment what it has just launched; after a while the fleet's own answer must do."""
    request = request_for(provider, ready_class, "unseen-1")
    templates = LaunchTemplates(clients, "sandbox")
    waits: list[float] = []
    late = Late(clients, provider, 2)
    instance = Launcher(clients, late, templates, sleep=waits.append).create_fleet(request).instance
    assert len(waits) == 2
    late = Late(clients, provider, 99)
    unseen = Launcher(clients, late, templates, sleep=waits.append).create_fleet(request).instance
    assert instance is not None
    assert unseen is not None
    unknown = {"private_dns_name": "", "launched_at": None, "security_group_ids": ()}
    assert instance.model_copy(update=unknown) == unseen


@pytest.mark.parametrize("denials", [0, 99], ids=["EC2 shows it", "EC2 does not show it yet"])
def test_an_instance_has_the_price_that_ec2_charges_whatever_its_request_preferred(
    denials: int, clients: Ec2, ready_class: EC2NodeClass
) -> None:
    """A NodeOverlay changes what plans and requests prefer, and not what the account pays."""
    on_demand = ("karpenter.sh/capacity-type", "In", ["on-demand"])
    fresh = Ec2Provider(clients, describe_cluster(clients, "sandbox"))  # another test may have deleted the templates
    request = request_for(fresh, ready_class, f"overlaid-{denials}", on_demand)
    overlaid = [
        evolve(template, overrides=[replace(row, price=0.01, priority=0.01) for row in template.overrides])
        for template in request.templates
    ]
    launcher = Launcher(
        clients, Late(clients, fresh, denials), LaunchTemplates(clients, "sandbox"), sleep=lambda _: None
    )
    instance = launcher.create_fleet(evolve(request, templates=overlaid)).instance
    assert instance is not None
    price = fresh.catalogue.price(instance.instance_type, instance.zone, "on-demand", "")
    assert instance.price == price > 0.01


def test_aws001_a_class_that_is_not_ready_is_not_launched_from(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """This is checked first, so a refused launch leaves nothing behind."""
    with pytest.raises(NodeClassReadinessUnknownError, match="not been resolved"):
        provider.prepare_launch(node_claim(), node_class(), 1)
    result = node_class(ready_class.status.to_dict(), role="KarpenterNodeRole-sandbox", tags={"team": "new"})
    result.spec.security_group_selector_terms[0].tags = {"no": "such"}
    unready = result.model_copy(update={"status": provider.resolve_node_class(result)})
    server.world.calls.clear()
    with pytest.raises(NodeClassNotReadyError, match="SecurityGroupsReady"):
        provider.prepare_launch(node_claim(), unready, 1)
    assert calls(server, "CreateLaunchTemplate") == 0


def test_the_sandbox_met_no_call_it_cannot_answer(server: Server) -> None:
    """Everything that the product asks of EC2 is something the sandbox answers."""
    assert server.world.internal_errors == []
