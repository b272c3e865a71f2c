"""The instances of an upstream Karpenter v1: its launch template, its fleet requests, its tags (AWS-122)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from sandbox.cluster import Sandbox
from tests.e2e.account import aws

TYPE, ZONE = "m5.large", "us-west-2a"


@dataclass(frozen=True)
class Instances:
    """What Karpenter asks of EC2 for one NodePool."""

    sandbox: Sandbox
    pool: str

    @property
    def ec2(self) -> Any:
        """EC2 by a client that has more rights than Karpenter."""
        return self.sandbox.aws("ec2")

    @property
    def _template(self) -> str:
        return f"karpenter.k8s.aws/{self.pool}"

    @property
    def _tags(self) -> list[dict[str, str]]:
        """The tags of all that is bought for the pool."""
        cluster = self.sandbox.cluster_name
        return pairs(
            {
                f"kubernetes.io/cluster/{cluster}": "owned",
                "karpenter.sh/nodepool": self.pool,
                "eks:eks-cluster-name": cluster,
                "karpenter.k8s.aws/ec2nodeclass": self.pool,
            }
        )

    def _discovered(self) -> list[dict[str, Any]]:
        return [{"Name": "tag:karpenter.sh/discovery", "Values": [self.sandbox.cluster_name]}]

    def image(self) -> str:
        """The image that ``al2023@latest`` selects for the type."""
        version = aws(self.sandbox, "eks").describe_cluster(name=self.sandbox.cluster_name)["cluster"]["version"]
        name = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/x86_64/standard/recommended/image_id"
        return str(aws(self.sandbox, "ssm").get_parameter(Name=name)["Parameter"]["Value"])

    def make_template(self) -> None:
        groups = self.ec2.describe_security_groups(Filters=self._discovered())["SecurityGroups"]
        self.ec2.create_launch_template(
            LaunchTemplateName=self._template,
            LaunchTemplateData={
                "ImageId": self.image(),
                "UserData": base64.b64encode(self._user_data().encode()).decode(),
                "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [groups[0]["GroupId"]]}],
            },
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": self._tags}],
        )

    def buy(self) -> str:
        """An instance by one fleet; no tag names its NodeClaim yet."""
        subnets = self.ec2.describe_subnets(Filters=self._discovered())["Subnets"]
        subnet = next(s["SubnetId"] for s in subnets if s["AvailabilityZone"] == ZONE)
        answer = self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateName": self._template, "Version": "$Latest"},
                    "Overrides": [{"InstanceType": TYPE, "SubnetId": subnet}],
                }
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
            TagSpecifications=[{"ResourceType": kind, "Tags": self._tags} for kind in ("instance", "volume", "fleet")],
        )
        return str(answer["Instances"][0]["InstanceIds"][0])

    def reboot(self, instance_id: str) -> None:
        self.ec2.reboot_instances(InstanceIds=[instance_id])

    def name(self, instance_id: str, claim: str, node: str) -> None:
        tags = {"Name": node, "karpenter.sh/nodeclaim": claim, "eks:eks-cluster-name": self.sandbox.cluster_name}
        self.ec2.create_tags(Resources=[instance_id], Tags=pairs(tags))

    @property
    def _kubelet(self) -> dict[str, Any]:
        """Its settings: the taint that the registration takes off."""
        return {"registerWithTaints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]}

    def _user_data(self) -> str:
        """What nodeadm makes of it: labels, and the kubelet's settings."""
        names = {"karpenter.sh/nodepool": self.pool, "karpenter.sh/do-not-sync-taints": "true"}
        cluster = aws(self.sandbox, "eks").describe_cluster(name=self.sandbox.cluster_name)["cluster"]
        config = {
            "apiVersion": "node.eks.aws/v1alpha1",
            "kind": "NodeConfig",
            "spec": {
                "cluster": {
                    "name": self.sandbox.cluster_name,
                    "apiServerEndpoint": cluster["endpoint"],
                    "certificateAuthority": cluster["certificateAuthority"]["data"],
                    "cidr": cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
                },
                "kubelet": {
                    "config": self._kubelet,
                    "flags": [f"--node-labels={','.join(f'{key}={value}' for key, value in names.items())}"],
                },
            },
        }
        lines = [
            "MIME-Version: 1.0",
            'Content-Type: multipart/mixed; boundary="//"',
            "",
            "--//",
            "Content-Type: application/node.eks.aws",
            "",
            json.dumps(config),
            "--//--",
            "",
        ]
        return "\n".join(lines)


def pairs(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
