"""Instance types as the scheduling engine sees them."""

from __future__ import annotations

import pytest

from tenon.apis import labels
from tenon.ec2.families import FAMILIES
from tenon.ec2.types.capacity import NodeSettings
from tenon.ec2.types.instance_labels import label_values
from tenon.ec2.types.instance_types import Prices, build, supported, without
from tenon.ec2.types.settings import settings_of
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirement, Requirements
from tests.ec2.samples import ZONES, instance_type, item, node_class, rows


@pytest.mark.parametrize("name", rows())
def test_labels_of_known_types(name: str) -> None:
    """ALB-01..ALB-18."""
    row = rows()[name]
    values = label_values(row["item"], "us-west-2", FAMILIES["AL2023"])
    assert {key: values[key] for key in row["requirements"]} == row["requirements"]


@pytest.mark.parametrize(
    ("performance", "cards", "bandwidth"),
    [
        ("200 Gigabit", [200.0, 200.0], ["200000"]),
        ("400 Gigabit", [400.0] * 4, ["400000"]),
        ("3200 Gigabit", [200.0] * 8, ["3200000"]),
        ("4x 100 Gigabit", [100.0] * 4, ["400000"]),
        ("600 Gigabit", [300.0, 300.0], ["600000"]),
        ("Very High", [100.0, 100.0], ["200000"]),
        ("Up to 12.5 Gigabit", [0.75], ["750"]),
        ("10 Gigabit", [5.0], ["5000"]),
        ("33.33 Gigabit", [33.333], ["33333"]),
        ("10 Gigabit", [], []),
    ],
    ids=["c6in.32xlarge", "g6e.48xlarge", "p6-b200", "p4d", "c8gn", "unread", "m5.large", "c3.8xlarge", "c8gb", "none"],
)
def test_alb14_the_bandwidth_is_that_of_all_cards_together(
    performance: str, cards: list[float], bandwidth: list[str]
) -> None:
    """EC2 states the whole for each card of some types, so their sum would be up to four times too much."""
    network = {"NetworkPerformance": performance, "NetworkCards": [{"BaselineBandwidthInGbps": card} for card in cards]}
    described = {**item("m5.large"), "NetworkInfo": {**item("m5.large")["NetworkInfo"], **network}}
    values = label_values(described, "us-west-2", FAMILIES["AL2023"])
    assert values["karpenter.k8s.aws/instance-network-bandwidth"] == bandwidth


def test_absent_labels_are_known_to_be_absent() -> None:
    """A pod that asks for a GPU must not get a type without; one that forbids it must."""
    plain, gpu = instance_type("m5.large"), instance_type("g4dn.xlarge")
    count = "karpenter.k8s.aws/instance-gpu-count"
    assert plain.requirements[count].operator == "DoesNotExist"
    assert gpu.requirements[count].values == ("1",)


def test_every_well_known_label_has_a_requirement() -> None:
    """ALB-01..ALB-21: else the engine would take an unknown label for 'anything goes'."""
    assert set(labels.WELL_KNOWN) - {labels.NODEPOOL} == set(instance_type("m5.large").requirements)


@pytest.mark.parametrize("label", ["id", "type", "interruptible"])
def test_alb19_without_a_reservation_the_labels_of_reservations_do_not_exist(label: str) -> None:
    """So a pod that forbids them may have the type, and one that asks for a reservation may not."""
    key = f"karpenter.k8s.aws/capacity-reservation-{label}"
    offered = instance_type("m5.large").requirements
    assert offered[key].operator == "DoesNotExist"
    assert offered.conflict(Requirements.of(Requirement.new(key, "DoesNotExist"))) is None
    assert offered.conflict(Requirements.of(Requirement.new(key, "Exists"))) is not None
    assert offered.conflict(Requirements.of(Requirement.new(key, "In", ("cr-1",)))) is not None


@pytest.mark.parametrize("label", ["id", "partition"])
def test_alb20_outside_of_placement_groups_their_labels_do_not_exist(label: str) -> None:
    key = f"karpenter.k8s.aws/placement-group-{label}"
    offered = instance_type("m5.large").requirements
    assert offered[key].operator == "DoesNotExist"
    assert offered.conflict(Requirements.of(Requirement.new(key, "In", ("pg-1",)))) is not None


def test_windows_build_only_on_windows() -> None:
    """ALB-23."""
    settings = NodeSettings(family=FAMILIES["Windows2022"])
    requirements = instance_type("m5.large", settings=settings).requirements
    assert requirements[labels.WINDOWS_BUILD].values == ("10.0.20348",)
    assert requirements[labels.OS].values == ("windows",)


def test_offerings_cover_zones_where_a_price_is_known() -> None:
    """AWS-078: on-demand everywhere, spot only in the zone that has a spot price."""
    item = instance_type("m5.large", 0.096, spot={"us-west-2b": 0.04})
    assert [(o.zone, o.capacity_type, o.price, o.zone_id) for o in item.offerings] == [
        ("us-west-2a", "on-demand", 0.096, "usw2-az2"),
        ("us-west-2b", "on-demand", 0.096, "usw2-az1"),
        ("us-west-2b", "spot", 0.04, "usw2-az1"),
    ]
    assert item.requirements[labels.CAPACITY_TYPE].values == ("on-demand", "spot")


def test_a_type_without_a_price_is_not_offered() -> None:
    """AWS-078."""
    assert build(item("m5.large"), "us-west-2", NodeSettings(), ZONES, Prices()) is None


def test_no10_a_type_without_a_price_may_be_shown_for_an_overlay_to_price() -> None:
    """Only where nothing is known of its price: a zone that sells no spot goes on to sell none."""
    unknown = build(item("m5.large"), "us-west-2", NodeSettings(), ZONES, Prices(), unpriced=True)
    assert unknown is not None
    assert {offering.price for offering in unknown.offerings} == {float("inf")}
    assert {offering.capacity_type for offering in unknown.offerings} == {"on-demand", "spot"}
    prices = Prices(on_demand={"m5.large": 0.1}, spot={("m5.large", "us-west-2b"): 0.04})
    entries = [
        build(item("m5.large"), "us-west-2", NodeSettings(), ZONES, prices, unpriced=flag) for flag in (False, True)
    ]
    assert entries[0] == entries[1]


def test_spot_costs_on_demand_until_its_price_is_known() -> None:
    """AWS-133: with estimates at hand those are used instead."""
    assert Prices(on_demand={"m5.large": 1.0}).of("m5.large", "us-west-2a", "spot") == 1.0
    assert Prices(on_demand={"m5.large": 1.0}).of("m5.large", "z", "spot") == 1.0


def test_refused_offerings_are_marked_and_others_untouched() -> None:
    """AWS-041."""
    m5, c5 = instance_type("m5.large"), instance_type("c5.18xlarge")
    marked, same = without([m5, c5], {OfferingKey("on-demand", "m5.large", "us-west-2a")})
    assert [offering.available for offering in marked.offerings] == [False, True]
    assert same is c5
    assert all(offering.available for offering in m5.offerings)


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("m5.large", NodeSettings(), True),
        ("t2.micro", NodeSettings(needs_nitro=True), False),
        ("m5.large", NodeSettings(needs_nitro=True), True),
        ("m5.metal", NodeSettings(needs_nitro=True), True),
        ("m5.large", NodeSettings(device_indexes={1: 0}), False),
        ("m5.large", NodeSettings(device_indexes={0: 2}), True),
        ("m5.large", NodeSettings(device_indexes={0: 3}), False),
        ("p4d.24xlarge", NodeSettings(device_indexes={0: 1, 3: 14}, efa_only_interfaces=(1, 2)), True),
        ("p4d.24xlarge", NodeSettings(device_indexes={0: 1, 3: 15}), False),
        ("m5.large", NodeSettings(efa_only_interfaces=(0,)), False),
        ("m5.large", NodeSettings(needs_nested_virtualization=True), False),
        ("m5.large", NodeSettings(needs_enclaves=True), False),
        ("m6i.2xlarge", NodeSettings(needs_enclaves=True), True),
        ("m5.large", NodeSettings(family=FAMILIES["Windows2022"]), True),
        ("m7g.16xlarge", NodeSettings(family=FAMILIES["Windows2022"]), False),
    ],
)
def test_types_that_a_class_can_use(name: str, settings: NodeSettings, expected: bool) -> None:
    """AWS-077."""
    assert supported(item(name), settings) is expected


def test_aws077_a_type_has_a_place_for_each_interface_that_a_class_lists() -> None:
    """EC2 numbers the places of a card from 0. An m5.large has three on its only card."""

    def fits(*places: tuple[int, int]) -> bool:
        listed = [
            {"networkCardIndex": card, "deviceIndex": device, "interfaceType": "interface"} for card, device in places
        ]
        return supported(item("m5.large"), settings_of(node_class(networkInterfaces=listed)))

    assert fits((0, 0), (0, 2), (0, 1))
    assert not fits((0, 0), (0, 3), (0, 1))
    assert not fits((0, 0), (1, 0))


def test_types_that_no_class_can_use() -> None:
    """AWS-077: paravirtual types, foreign architectures, a1 with AL2023."""
    assert not supported(item("m5.large") | {"SupportedVirtualizationTypes": ["paravirtual"]}, NodeSettings())
    mac = item("m5.large") | {"ProcessorInfo": {"SupportedArchitectures": ["x86_64_mac"]}}
    assert not supported(mac, NodeSettings())
    a1 = item("t4g.small") | {"InstanceType": "a1.large"}
    assert not supported(a1, NodeSettings())
    assert supported(a1, NodeSettings(family=FAMILIES["Bottlerocket"]))
