"""From claim to fleet request and launch templates."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from activities.ec2.launch import fleet_parameters
from tenon.apis.common import SelectorRequirement
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeclaim import NodeClaim
from tenon.ec2.launch.filters import NoImageError, NoOfferingError
from tenon.ec2.launch.request import LaunchPlan, best_subnets, client_token, plan_launch
from tenon.ec2.types.capacity import NodeSettings
from tenon.ec2.types.instance_types import Prices, build, without
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirements
from tenon.scheduling.model import InstanceType
from tests.ec2.samples import AMD, ARM, CLUSTER, GPU, ZONES, instance_type, item, node_claim, node_class

FREE = {"subnet-a1": 5, "subnet-a2": 50, "subnet-b1": 7}
TYPES = [
    instance_type("m5.large", 0.1, spot={"us-west-2a": 0.03, "us-west-2b": 0.04}),
    instance_type("m6i.2xlarge", 0.4, spot={"us-west-2a": 0.1}),
    instance_type("t4g.small", 0.05, spot={"us-west-2b": 0.01}),
    instance_type("g4dn.xlarge", 0.5, spot={"us-west-2a": 0.2}),
]


def planned(claim: NodeClaim | None = None, selection: EC2NodeClass | None = None, attempt: int = 1) -> LaunchPlan:
    return plan_launch(claim or node_claim(), selection or node_class(), CLUSTER, TYPES, FREE, attempt)


def user_data(plan: LaunchPlan, number: int = 0) -> str:
    return base64.b64decode(plan.templates[number].data["UserData"]).decode()


def test_one_template_for_each_image_and_number_of_pods() -> None:
    """AWS-091, AWS-006: overrides are type by zone, each type under its own image's template."""
    plan = planned(node_claim(requests={"cpu": "100m", "memory": "256Mi", "pods": "1"}))
    rows = {
        (template.image_id, row.instance_type, row.zone, row.subnet_id, row.price)
        for template in plan.request.templates
        for row in template.overrides
    }
    assert rows == {
        (ARM, "t4g.small", "us-west-2b", "subnet-b1", 0.01),
        (AMD, "m5.large", "us-west-2a", "subnet-a2", 0.03),
        (AMD, "m5.large", "us-west-2b", "subnet-b1", 0.04),
    }
    assert [template.name for template in plan.request.templates] == [template.name for template in plan.templates]
    assert plan.request.capacity_type == "spot"


def test_gpu_claims_boot_the_gpu_image() -> None:
    """AWS-109."""
    claim = node_claim(requests={"nvidia.com/gpu": "1"})
    assert [template.image_id for template in planned(claim).request.templates] == [GPU]


def refused(*names: str) -> list[InstanceType]:
    """The types while EC2 refuses all offerings of these."""
    kinds = ("spot", "on-demand")
    return without(TYPES, {OfferingKey(kind, name, zone) for kind in kinds for name in names for zone in ZONES})


def test_a_claim_that_no_image_boots_says_so_and_blames_no_capacity() -> None:
    """The class may have got other images since the plan. What EC2 refuses at the moment does not matter then."""
    amd_only = node_class({"amis": [ami.to_dict() for ami in node_class().status.amis if ami.id == AMD]})
    on_arm = node_claim(("kubernetes.io/arch", "In", ["arm64"]))
    for types in (TYPES, refused("t4g.small")):
        with pytest.raises(NoImageError, match=rf"^no image of EC2NodeClass default \({AMD}\) boots arm64$"):
            plan_launch(on_arm, amd_only, CLUSTER, types, FREE, 1)
    with_gpu = node_claim(requests={"nvidia.com/gpu": "1"})
    with pytest.raises(NoImageError, match=rf"^no image of EC2NodeClass default \({AMD}\) boots g4dn.xlarge$"):
        plan_launch(with_gpu, amd_only, CLUSTER, TYPES, FREE, 1)


def test_a_claim_with_a_type_that_an_image_boots_waits_for_its_capacity() -> None:
    amd_only = node_class({"amis": [ami.to_dict() for ami in node_class().status.amis if ami.id == AMD]})
    with pytest.raises(NoOfferingError, match="can be bought"):
        plan_launch(node_claim(), amd_only, CLUSTER, refused("m5.large", "m6i.2xlarge"), FREE, 1)


@pytest.mark.parametrize(
    ("region", "knows_it"), [("us-iso-east-1", False), ("us-isob-east-1", False), ("us-east-1", True)]
)
def test_ec20_isolated_regions_get_no_ipv6_option_of_the_metadata_service(region: str, knows_it: bool) -> None:
    """EC2 there refuses it, whatever its value, so no launch would succeed. The dry runs use the template's options."""
    selection = node_class(metadataOptions={"httpProtocolIPv6": "disabled"})
    (*_, template) = plan_launch(node_claim(), selection, replace(CLUSTER, region=region), TYPES, FREE, 1).templates
    assert ("HttpProtocolIpv6" in template.data["MetadataOptions"]) == knows_it
    assert template.data["MetadataOptions"]["HttpTokens"] == "required"


def test_aws091_aws110_only_pods_that_ask_for_efa_get_its_interfaces() -> None:
    """As many as the type has, whatever the pods ask for, because one template serves all claims of the kind."""
    on_demand = ("karpenter.sh/capacity-type", "In", ["on-demand"])

    def interfaces(requests: dict[str, str]) -> list[str]:
        claim = node_claim(on_demand, requests={"nvidia.com/gpu": "8", **requests})
        plan = plan_launch(claim, node_class(), CLUSTER, [instance_type("p4d.24xlarge")], FREE, 1)
        (template,) = plan.templates
        return [network_interface["InterfaceType"] for network_interface in template.data.get("NetworkInterfaces", [])]

    assert interfaces({}) == []
    assert interfaces({"vpc.amazonaws.com/efa": "1"}) == ["efa"] * 4


def test_aws110_efa_begins_on_the_second_card_where_the_first_supports_none() -> None:
    """Such a type has a template of its own next to types with as many EFA interfaces."""
    names = ["p4d.24xlarge", "p6-b300.48xlarge"]
    types = [
        build(item("p4d.24xlarge") | {"InstanceType": name}, "us-west-2", NodeSettings(), ZONES, Prices({name: 1.0}))
        for name in names
    ]
    on_demand = ("karpenter.sh/capacity-type", "In", ["on-demand"])
    claim = node_claim(on_demand, requests={"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "1"})
    plan = plan_launch(claim, node_class(), CLUSTER, [kind for kind in types if kind is not None], FREE, 1)
    places = {
        fleet_template.overrides[0].instance_type: [
            (interface["NetworkCardIndex"], interface["DeviceIndex"], interface["InterfaceType"])
            for interface in template.data["NetworkInterfaces"]
        ]
        for fleet_template, template in zip(plan.request.templates, plan.templates, strict=True)
    }
    assert places == {
        "p4d.24xlarge": [(0, 0, "efa"), (1, 1, "efa"), (2, 1, "efa"), (3, 1, "efa")],
        "p6-b300.48xlarge": [(0, 0, "interface"), (1, 1, "efa"), (2, 1, "efa"), (3, 1, "efa"), (4, 1, "efa")],
    }


def test_types_with_other_pod_numbers_have_other_templates() -> None:
    """AWS-091: m5.large takes 29 pods, m6i.2xlarge 58, and the kubelet is told."""
    only_on_demand = node_claim(
        ("karpenter.sh/capacity-type", "In", ["on-demand"]), requests={"cpu": "1", "memory": "3Gi"}
    )
    plan = planned(only_on_demand)
    assert len(plan.templates) == 2
    assert '"maxPods": 29' in user_data(plan, 0)
    assert '"maxPods": 58' in user_data(plan, 1)


def test_aws098_the_version_of_bottlerocket_is_that_of_the_image_that_is_launched() -> None:
    claim = node_claim(("karpenter.sh/capacity-type", "In", ["on-demand"]))
    terms = [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]
    for version, bound in (("1.45.0", True), ("1.50.0", False)):
        image = {"id": AMD, "name": f"bottlerocket-aws-k8s-1.36-x86_64-v{version}-1a2b3c4d", "requirements": terms}
        alias = [{"alias": "bottlerocket@latest"}]
        selection = node_class({"amis": [image]}, amiSelectorTerms=alias, instanceStorePolicy="RAID0")
        assert ("--dirs" in user_data(planned(claim, selection))) is bound


def test_a_request_names_at_most_fifty_templates() -> None:
    """EC2 refuses one with more. The cheapest types stay, and those whose values minValues ask for."""
    model = instance_type("m5.large", 1.0)
    size = "karpenter.k8s.aws/instance-size"

    def kind(number: int) -> InstanceType:
        name = f"m5.{number:02}"
        own_labels = {"node.kubernetes.io/instance-type": name, size: "xlarge" if number == 59 else "large"}
        return replace(
            model,
            name=name,
            requirements=Requirements.from_labels({**model.requirements.labels(), **own_labels}),
            offerings=tuple(replace(offering, price=1.0 + number) for offering in model.offerings),
            capacity={**model.capacity, "pods": 110 - number},
        )

    types = [kind(number) for number in range(60)]
    plan = plan_launch(node_claim(), node_class(), CLUSTER, types, FREE, 1)
    assert len(plan.templates) == len(plan.request.templates) == 50
    assert bought_types(plan) == {f"m5.{number:02}" for number in range(50)}
    assert plan.addresses == {"subnet-a2": 61, "subnet-b1": 61}, "of the types that the request names"
    claim = node_claim()
    claim.spec.requirements.append(SelectorRequirement(key=size, operator="Exists", min_values=2))
    plan = plan_launch(claim, node_class(), CLUSTER, types, FREE, 1)
    assert bought_types(plan) == {*(f"m5.{number:02}" for number in range(49)), "m5.59"}


def test_aws021_reservations_of_many_zones_need_at_most_fifty_templates() -> None:
    model = instance_type("m5.large", 1.0)

    def kind(number: int) -> InstanceType:
        name = f"m5.{number:02}"
        places = tuple(
            replace(
                offering,
                capacity_type="reserved",
                price=0.0,
                reservation_id=f"cr-{number}-{offering.zone}",
                reservation_type="default",
                reservation_capacity=1,
            )
            for offering in model.offerings
        )
        own_labels = {"node.kubernetes.io/instance-type": name, "karpenter.sh/capacity-type": "reserved"}
        requirements = Requirements.from_labels({**model.requirements.labels(), **own_labels})
        return replace(model, name=name, requirements=requirements, offerings=places)

    plan = plan_launch(node_claim(), node_class(), CLUSTER, [kind(number) for number in range(30)], FREE, 1)
    assert plan.request.capacity_type == "reserved"
    assert len(plan.templates) == len(plan.request.templates) == 50
    assert bought_types(plan) == {f"m5.{number:02}" for number in range(25)}


def bought_types(plan: LaunchPlan) -> set[str]:
    return {row.instance_type for template in plan.request.templates for row in template.overrides}


def test_custom_user_data_needs_no_template_for_each_number_of_pods() -> None:
    """AWS-100: untouched user data is the same for all types."""
    claim = node_claim(("karpenter.sh/capacity-type", "In", ["on-demand"]), requests={"cpu": "1", "memory": "3Gi"})
    custom = node_class(amiFamily="Custom", amiSelectorTerms=[{"id": "ami-1"}], userData="mine")
    plan = planned(claim, custom)
    assert len(plan.templates) == 1
    assert user_data(plan) == "mine"


@pytest.mark.parametrize(
    ("capacity_type", "options"),
    [
        ("spot", ("SpotOptions", "capacity-optimized-prioritized")),
        ("on-demand", ("OnDemandOptions", "prioritized")),
    ],
)
def test_no10_with_a_price_overlay_ec2_uses_the_overlaid_prices(capacity_type: str, options: tuple[str, str]) -> None:
    """The types come with the overlay on them; without its trace on the claim nothing has a priority."""
    expectation = ("karpenter.sh/capacity-type", "In", [capacity_type])
    claim = node_claim(expectation, requests={"cpu": "1", "memory": "3Gi"})
    plain = planned(claim).request
    assert {row.priority for template in plain.templates for row in template.overrides} == {None}
    claim.metadata.annotations["karpenter.sh/price-overlay-applied"] = "true"
    request = planned(claim).request
    rows = [row for template in request.templates for row in template.overrides]
    assert len(rows) > 1
    assert all(row.priority == row.price for row in rows)
    assert fleet_parameters(request)[options[0]]["AllocationStrategy"] == options[1]


def test_aws003_dedicated_instances_are_asked_for_by_the_template() -> None:
    """ALB-18: of any type; what does not ask for it has the template that it always had."""
    shared = planned(node_claim()).templates[0]
    assert "Placement" not in shared.data
    claim = node_claim(("karpenter.k8s.aws/instance-tenancy", "In", ["dedicated"]))
    dedicated = planned(claim).templates[0]
    assert dedicated.data["Placement"] == {"Tenancy": "dedicated"}
    assert dedicated.name != shared.name


def test_aws009_no_context_where_min_values_were_relaxed() -> None:
    """ANN-05."""
    claim = node_claim()
    selection = node_class(context="group-1")
    assert planned(claim, selection).request.context == "group-1"
    claim.metadata.annotations["karpenter.sh/nodeclaim-min-values-relaxed"] = "false"
    assert planned(claim, selection).request.context == "group-1"
    claim.metadata.annotations["karpenter.sh/nodeclaim-min-values-relaxed"] = "true"
    assert planned(claim, selection).request.context == ""
    term = SelectorRequirement(key="karpenter.k8s.aws/instance-family", operator="Exists", min_values=9)
    claim.spec.requirements.append(term)
    assert planned(claim, selection).request.templates, "and too few values do not stop the launch"


def test_the_token_belongs_to_claim_and_attempt() -> None:
    """AWS-010, improved: a retry repeats the token, a new attempt or another claim does not."""
    tokens = {client_token(c, u, a) for c in ("one", "two") for u in ("x", "y") for a in (1, 2)}
    assert len(tokens) == 8
    assert all(len(token) <= 64 and token.isascii() for token in tokens)
    assert planned().request == planned().request
    assert planned().request.client_token != planned(attempt=2).request.client_token


def test_tags_say_whose_the_instance_is() -> None:
    """AWS-122: and name the claim from the start."""
    request = planned(selection=node_class(tags={"team": "blue", "Name": "mine"})).request
    assert request.tags == {
        "Name": "mine",
        "team": "blue",
        "kubernetes.io/cluster/test": "owned",
        "eks:eks-cluster-name": "test",
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "karpenter.sh/nodeclaim": "default-1",
        "tenon.sh/client-token": request.client_token,
    }


def test_ars01_pods_with_nitro_enclaves_get_instances_that_may_have_them() -> None:
    """ALB-08: a NodeOverlay says how many places a type has; where EC2 supports none, nothing is bought."""
    place = {"eks.amazonaws.com/nitro-sandbox": 2}
    overlaid = [
        replace(instance_type(name), capacity={"cpu": 8000, "pods": 9, **place}) for name in ("m5.large", "m6i.2xlarge")
    ]
    requirements = [item.requirements.get("karpenter.k8s.aws/nitro-sandbox") for item in overlaid]
    assert [requirement.has("true") for requirement in requirements] == [False, True]
    requests = node_claim(requests={"cpu": "100m", "eks.amazonaws.com/nitro-sandbox": "1"})
    plan = plan_launch(requests, node_class(), CLUSTER, overlaid, FREE, 1)
    assert {row.instance_type for template in plan.request.templates for row in template.overrides} == {"m6i.2xlarge"}
    assert [template.data["EnclaveOptions"] for template in plan.templates] == [{"Enabled": True}]
    assert "EnclaveOptions" not in planned().templates[0].data


def test_n15_333_pods_that_ask_for_nip_slots_switch_no_enclaves_on() -> None:
    slots = {"eks.amazonaws.com/nip-slots": 2}
    overlaid = [replace(instance_type("m6i.2xlarge"), capacity={"cpu": 8000, "pods": 9, **slots})]
    requests = node_claim(requests={"cpu": "100m", "eks.amazonaws.com/nip-slots": "1"})
    plan = plan_launch(requests, node_class(), CLUSTER, overlaid, FREE, 1)
    assert [template.data.get("EnclaveOptions") for template in plan.templates] == [None]


def test_claims_of_one_pool_share_templates() -> None:
    """AWS-090: nothing of a single claim or batch may reach the template."""
    launch_plan, two = planned(node_claim(name="default-1")), planned(node_claim(name="default-2"))
    assert launch_plan.templates == two.templates
    assert launch_plan.request.client_token != two.request.client_token


def test_node_labels_and_taints_are_in_the_user_data() -> None:
    """AWS-101."""
    claim = node_claim(
        taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
        startupTaints=[{"key": "cni", "effect": "NoExecute"}],
    )
    text = user_data(planned(claim))
    assert "team=blue" in text
    assert "tenon.sh" not in text
    for key in ("dedicated", "cni", "karpenter.sh/unregistered"):
        assert f'"key": "{key}"' in text


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        ({"subnet-a1": 5, "subnet-a2": 50, "subnet-b1": 1}, {"us-west-2a": "subnet-a2", "us-west-2b": "subnet-b1"}),
        ({"subnet-a1": 5, "subnet-a2": 5, "subnet-b1": 0}, {"us-west-2a": "subnet-a1"}),
        ({}, {}),
    ],
)
def test_subnet_choice(free: dict[str, int], expected: dict[str, str]) -> None:
    """AWS-120, AWS-043: the most free addresses, ties by id, full or vanished subnets never."""
    subnets = best_subnets(node_class().status.subnets, free)
    assert {zone: subnet.id for zone, subnet in subnets.items()} == expected


def test_aws120_a_launch_uses_the_addresses_of_the_fewest_pods_in_each_subnet() -> None:
    """Of the types that may be launched there: m5.large takes 29 pods, m6i.2xlarge 58."""
    on_demand = ("karpenter.sh/capacity-type", "In", ["on-demand"])
    plan = planned(node_claim(on_demand, requests={"cpu": "1", "memory": "3Gi"}))
    assert plan.addresses == {"subnet-a2": 29, "subnet-b1": 29}
    assert planned(node_claim(on_demand, requests={"cpu": "4"})).addresses == {"subnet-a2": 58, "subnet-b1": 58}


@pytest.mark.parametrize(
    ("capacity_type", "options"),
    [
        ("spot", {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}),
        ("on-demand", {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}),
    ],
)
def test_fleet_parameters(capacity_type: str, options: dict[str, Any]) -> None:
    """AWS-004..008."""
    claim = node_claim(("karpenter.sh/capacity-type", "In", [capacity_type]))
    request = planned(claim, node_class(context="ctx")).request
    parameters = fleet_parameters(request)
    assert parameters["Type"] == "instant"
    assert parameters["ClientToken"] == request.client_token
    assert parameters["Context"] == "ctx"
    assert parameters["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 1,
        "DefaultTargetCapacityType": capacity_type,
    }
    assert {key: value for key, value in parameters.items() if key.endswith("Options")} == options
    assert [tag_specification["ResourceType"] for tag_specification in parameters["TagSpecifications"]] == [
        "instance",
        "volume",
        "fleet",
    ]
    first = parameters["LaunchTemplateConfigs"][0]
    assert first["LaunchTemplateSpecification"] == {
        "LaunchTemplateName": request.templates[0].name,
        "Version": "$Latest",
    }
    assert set(first["Overrides"][0]) == {"InstanceType", "SubnetId", "AvailabilityZone", "ImageId"}


def test_prioritized_when_rows_have_priorities() -> None:
    """AWS-005."""
    request = planned().request
    template = request.templates[0]
    rows = [replace(row, priority=1.0) for row in template.overrides]
    prioritized = request.model_copy(update={"templates": [template.model_copy(update={"overrides": rows})]})
    parameters = fleet_parameters(prioritized)
    assert parameters["SpotOptions"] == {"AllocationStrategy": "capacity-optimized-prioritized"}
    assert parameters["LaunchTemplateConfigs"][0]["Overrides"][0]["Priority"] == 1.0
