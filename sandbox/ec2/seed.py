"""Seeds the account with what exists before the first call: network, role, image parameters, and the EKS cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from moto.ec2.models import ec2_backends
from moto.eks.models import eks_backends
from moto.iam.models import iam_backends
from moto.ssm.models import Parameter, ssm_backends

from sandbox.ec2.authorization.identities import ACCOUNT
from sandbox.ec2.images import images
from sandbox.ec2.region import EC2_SERVICE, PARTITION, REGION, ZONES
from sandbox.ec2.world import ClusterFacts

VPC_CIDR = "10.0.0.0/16"
SUBNETS = dict(zip(ZONES, ("10.0.0.0/18", "10.0.64.0/18", "10.0.128.0/18", "10.0.192.0/18"), strict=False))
"""One subnet per zone, large enough for any load test."""
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": EC2_SERVICE}, "Action": "sts:AssumeRole"}],
}


def seed(cluster: ClusterFacts) -> None:
    """Create everything. Call it once on an empty account."""
    tags = {"karpenter.sh/discovery": cluster.name, f"kubernetes.io/cluster/{cluster.name}": "owned"}
    subnets, groups = _network(cluster.name, tags)
    _role(cluster.name, tags)
    _parameters()
    _eks(cluster, subnets, groups)


def _network(name: str, tags: dict[str, str]) -> tuple[list[str], list[str]]:
    ec2 = ec2_backends[ACCOUNT][REGION]
    vpc = ec2.create_vpc(VPC_CIDR)
    ec2.create_tags([vpc.id], {**tags, "Name": f"{name}-vpc"})
    subnets = []
    for zone, cidr in SUBNETS.items():
        subnet = ec2.create_subnet(vpc.id, cidr, availability_zone=zone)
        ec2.create_tags([subnet.id], {**tags, "Name": f"{name}-{zone}"})
        subnets.append(str(subnet.id))
    group = ec2.create_security_group(f"{name}-nodes", f"Nodes of the cluster {name}", vpc_id=vpc.id)
    ec2.create_tags([group.id], {**tags, "Name": f"{name}-nodes"})
    return subnets, [str(group.id)]


def _role(name: str, tags: dict[str, str]) -> None:
    iam = iam_backends[ACCOUNT][PARTITION]
    role_name = f"KarpenterNodeRole-{name}"
    iam.create_role(
        role_name=role_name,
        assume_role_policy_document=json.dumps(TRUST),
        path="/",
        permissions_boundary=None,
        description="Nodes",
        tags=[{"Key": key, "Value": value} for key, value in tags.items()],
        max_session_duration="3600",
    )
    iam.create_instance_profile(name=role_name, path="/", role_names=[role_name])


def _parameters() -> None:
    ssm = ssm_backends[ACCOUNT][REGION]
    for image in images():
        for name in image.parameters:
            ssm._parameters[name].append(
                Parameter(
                    account_id=ACCOUNT,
                    name=name,
                    value=image.id,
                    parameter_type="String",
                    description=None,
                    allowed_pattern=None,
                    keyid=None,
                    last_modified_date=datetime.now(UTC),
                    version=1,
                    data_type="text",
                )
            )


def _eks(cluster: ClusterFacts, subnets: list[str], groups: list[str]) -> None:
    eks = eks_backends[ACCOUNT][REGION]
    record: Any = eks.create_cluster(
        name=cluster.name,
        role_arn=f"arn:{PARTITION}:iam::{ACCOUNT}:role/{cluster.name}-cluster",
        resources_vpc_config={
            "subnetIds": subnets,
            "securityGroupIds": groups,
            "clusterSecurityGroupId": groups[0],
            "endpointPublicAccess": True,
        },
        version=cluster.version,
    )
    record.endpoint = cluster.endpoint
    record.certificate_authority = {"data": cluster.certificate_authority}
    record.kubernetes_network_config = {"serviceIpv4Cidr": cluster.service_cidr, "ipFamily": "ipv4"}
