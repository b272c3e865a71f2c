"""What a launch template says."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.ec2.families.cluster import Cluster
from tenon.ec2.launch import template as launch_template
from tenon.ec2.launch.template import LaunchTemplate, MachineNeeds
from tests.ec2.samples import node_class


def template(
    efa: int = 0,
    first_efa_card: int = 0,
    capacity_type: str = "on-demand",
    tags: dict[str, str] | None = None,
    *,
    ipv6: bool = False,
    **spec: Any,
) -> LaunchTemplate:
    return launch_template.build(
        node_class(**spec),
        Cluster(name="c", region="us-west-2", service_cidr="fd00::/108" if ipv6 else "10.100.0.0/16"),
        MachineNeeds(efa_interfaces=efa, first_efa_card=first_efa_card),
        image_id="ami-1",
        user_data="text",
        capacity_type=capacity_type,
        tags=tags or {"a": "b"},
    )


def test_plain_template() -> None:
    """AWS-090..093, AWS-111, AWS-123, EC-20: every default in full; open reservations are left to others."""
    built = template(capacity_type="spot")
    assert built.name.startswith("karpenter.k8s.aws/")
    assert len(built.name) <= 128
    assert built.data == {
        "ImageId": "ami-1",
        "IamInstanceProfile": {"Name": "profile"},
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {"DeleteOnTermination": True, "Encrypted": True, "VolumeSize": 20, "VolumeType": "gp3"},
            }
        ],
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 1,
            "HttpTokens": "required",
            "InstanceMetadataTags": "disabled",
        },
        "Monitoring": {"Enabled": False},
        "CapacityReservationSpecification": {"CapacityReservationPreference": "none"},
        "UserData": "dGV4dA==",
        "TagSpecifications": [
            {"ResourceType": "network-interface", "Tags": [{"Key": "a", "Value": "b"}]},
            {"ResourceType": "spot-instances-request", "Tags": [{"Key": "a", "Value": "b"}]},
        ],
        "SecurityGroupIds": ["sg-1", "sg-2"],
    }


def test_aws092_only_a_spot_launch_tags_a_spot_request() -> None:
    def tagged(built: LaunchTemplate) -> list[str]:
        return [tag_specification["ResourceType"] for tag_specification in built.data["TagSpecifications"]]

    assert tagged(template(capacity_type="spot")) == ["network-interface", "spot-instances-request"]
    assert tagged(template(capacity_type="on-demand")) == ["network-interface"]
    assert tagged(template(capacity_type="reserved")) == ["network-interface"]


def test_the_name_follows_everything_that_matters() -> None:
    """AWS-090: equal parameters, equal name; any other parameter, another name."""
    variants = [
        template(),
        template(efa=1),
        template(capacity_type="spot"),
        template(tags={"a": "c"}),
        template(detailedMonitoring=True),
        template(associatePublicIPAddress=False),
        template(metadataOptions={"httpTokens": "optional"}),
        template(status={"securityGroups": [{"id": "sg-9"}]}),
        template(status={"instanceProfile": "other"}),
    ]
    assert len({variant.name for variant in variants}) == len(variants)
    assert template().name == template().name


@pytest.mark.parametrize(
    ("alias", "devices"),
    [
        ("bottlerocket@latest", [("/dev/xvda", 6), ("/dev/xvdb", 20)]),
        ("windows2022@latest", [("/dev/sda1", 50)]),
        ("al2@latest", [("/dev/xvda", 20)]),
    ],
)
def test_aws093_to_aws095_default_volumes_are_encrypted_gp3(alias: str, devices: list[tuple[str, int]]) -> None:
    """N15-385: pods use the second one of Bottlerocket, and the only one of the others."""
    mappings = launch_template.block_devices(node_class(amiSelectorTerms=[{"alias": alias}]))
    assert [(mapping["DeviceName"], mapping["Ebs"]["VolumeSize"]) for mapping in mappings] == devices
    assert all(mapping["Ebs"]["VolumeType"] == "gp3" for mapping in mappings)
    assert all(mapping["Ebs"]["Encrypted"] and mapping["Ebs"]["DeleteOnTermination"] for mapping in mappings)


def test_custom_has_no_default_volume() -> None:
    """AWS-093."""
    assert "BlockDeviceMappings" not in template(amiFamily="Custom", amiSelectorTerms=[{"id": "ami-1"}]).data


def test_own_volumes_replace_the_defaults() -> None:
    """EC-16: sizes in GiB rounded up; unset fields stay EC2's own, except that nothing outlives the instance."""
    ebs = {"volumeSize": "100G", "iops": 3000, "snapshotID": "snap-1", "volumeInitializationRate": 200}
    (mapping,) = template(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": ebs}]).data["BlockDeviceMappings"]
    assert mapping == {
        "DeviceName": "/dev/xvda",
        "Ebs": {
            "DeleteOnTermination": True,
            "Iops": 3000,
            "SnapshotId": "snap-1",
            "VolumeInitializationRate": 200,
            "VolumeSize": 94,
            "VolumeType": "gp3",
        },
    }


@pytest.mark.parametrize(
    ("spec", "primary"),
    [
        ({"associatePublicIPAddress": False}, {"AssociatePublicIpAddress": False}),
        ({"ipPrefixCount": 2}, {"Ipv4PrefixCount": 2}),
        (
            {"connectionTracking": {"tcpEstablishedTimeout": 60}},
            {"ConnectionTrackingSpecification": {"TcpEstablishedTimeout": 60}},
        ),
    ],
)
def test_wishes_on_the_primary_interface(spec: dict[str, Any], primary: dict[str, Any]) -> None:
    """EC-05, EC-06, EC-21: groups move to the interface, for EC2 takes them in one place only."""
    data = template(**spec).data
    base = {"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "interface", "Groups": ["sg-1", "sg-2"]}
    assert data["NetworkInterfaces"] == [base | primary]
    assert "SecurityGroupIds" not in data


@pytest.mark.parametrize(
    ("spec", "own"),
    [
        ({"associatePublicIPAddress": False}, {"AssociatePublicIpAddress": False}),
        ({"ipPrefixCount": 3}, {"Ipv4PrefixCount": 3}),
        (
            {"connectionTracking": {"udpTimeout": 30}},
            {"ConnectionTrackingSpecification": {"UdpTimeout": 30}},
        ),
    ],
)
def test_ec05_ec06_ec21_every_interface_with_an_address_gets_what_the_class_says(
    spec: dict[str, Any], own: dict[str, Any]
) -> None:
    listed = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "efa-only"},
    ]

    def which(built: LaunchTemplate) -> list[bool]:
        return [own.items() <= network_interface.items() for network_interface in built.data["NetworkInterfaces"]]

    assert which(template(networkInterfaces=listed, **spec)) == [True, True, False]
    assert which(template(efa=2, **spec)) == [True, True]


def test_ec06_nodes_of_an_ipv6_cluster_have_an_address_and_no_prefixes() -> None:
    """EC2 refuses both on one interface, and with IPv4 prefixes the pods of the node would get no address."""
    (interface,) = template(ipv6=True, ipPrefixCount=1).data["NetworkInterfaces"]
    assert interface["Ipv6AddressCount"] == 1
    assert not interface.keys() & {"Ipv4PrefixCount", "Ipv6PrefixCount"}


def test_aws102_nodes_of_an_ipv6_cluster_have_an_ipv6_address() -> None:
    """Whatever the subnet says: without it no node joins. An efa-only interface has no address."""
    expectation = {"Ipv6AddressCount": 1, "PrimaryIpv6": True}

    def addressed(built: LaunchTemplate) -> list[bool]:
        return [
            expectation.items() <= network_interface.items() for network_interface in built.data["NetworkInterfaces"]
        ]

    assert addressed(template(ipv6=True)) == [True]
    assert addressed(template(ipv6=True, efa=2)) == [True, True]
    listed = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "efa-only"},
    ]
    assert addressed(template(ipv6=True, networkInterfaces=listed)) == [True, False]
    assert addressed(template(associatePublicIPAddress=True)) == [False]
    assert "NetworkInterfaces" not in template().data


def test_ec19_ec23_monitoring_and_nested_virtualization_are_asked_for() -> None:
    data = template(detailedMonitoring=True, cpuOptions={"nestedVirtualization": "enabled"}).data
    assert data["Monitoring"] == {"Enabled": True}
    assert data["CpuOptions"] == {"NestedVirtualization": "enabled"}


def test_n15_331_a_class_switches_enclaves_on_for_all_its_nodes() -> None:
    """N15-331."""
    assert template(enclaveOptions={"enabled": True}).data["EnclaveOptions"] == {"Enabled": True}
    assert "EnclaveOptions" not in template(enclaveOptions={"enabled": False}).data


def test_efa_interfaces() -> None:
    """AWS-110: as many as the type has when pods ask for them; a class that lists its interfaces decides alone."""

    def places(built: LaunchTemplate) -> list[tuple[int, int, str]]:
        return [
            (
                network_interface["NetworkCardIndex"],
                network_interface["DeviceIndex"],
                network_interface["InterfaceType"],
            )
            for network_interface in built.data["NetworkInterfaces"]
        ]

    assert places(template(efa=3)) == [(0, 0, "efa"), (1, 1, "efa"), (2, 1, "efa")]
    assert places(template(efa=2, first_efa_card=1)) == [(0, 0, "interface"), (1, 1, "efa"), (2, 1, "efa")]
    listed = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "efa-only"},
    ]
    assert places(template(efa=3, networkInterfaces=listed)) == [(0, 0, "interface"), (1, 0, "efa-only")]
