"""An account with several clusters: what each of them has, and what is left of it."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.ec2.client import Ec2Admin
from tests.ec2.conftest import Administrator

REGION = "us-west-2"
ENDED = ("shutting-down", "terminated")


def tags_of(cluster: str, claim: str) -> dict[str, str]:
    """The tags of an instance that Tenon launched for the cluster."""
    return {
        "Name": claim,
        f"kubernetes.io/cluster/{cluster}": "owned",
        "eks:eks-cluster-name": cluster,
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "karpenter.sh/nodeclaim": claim,
    }


@dataclass(frozen=True)
class Account:
    """The administrator's view of the account."""

    admin: Administrator

    @property
    def ec2(self) -> Ec2Admin:
        return Ec2Admin(self.admin.ec2.meta.endpoint_url)

    def fill(self, cluster: str, instances: int) -> list[str]:
        """Give the cluster instances, a launch template and an instance profile, as launches leave them."""
        names = [f"{cluster}-{number}" for number in range(instances)]
        ids = [self.ec2.plant_instance(tags_of(cluster, name), age_seconds=3600.0) for name in names]
        self.ec2.plant_launch_template(f"karpenter.k8s.aws/{cluster}/1", tags_of(cluster, ""), age_seconds=3600.0)
        profile = f"{cluster}_profile"
        self.admin.iam.create_instance_profile(
            InstanceProfileName=profile,
            Path=f"/karpenter/{REGION}/{cluster}/0b6c2f/",
            Tags=[{"Key": key, "Value": value} for key, value in tags_of(cluster, "").items() if value],
        )
        role = f"KarpenterNodeRole-{cluster}"
        self.admin.iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")
        self.admin.iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=role)
        return ids

    def alive(self, cluster: str) -> set[str]:
        """The instances of the cluster that run."""
        return {
            instance["id"]
            for instance in self.ec2.instances()
            if instance["tags"].get("eks:eks-cluster-name") == cluster and instance["state"] not in ENDED
        }

    def templates(self, cluster: str) -> set[str]:
        pages = self.admin.ec2.get_paginator("describe_launch_templates").paginate()
        names = {template["LaunchTemplateName"] for page in pages for template in page["LaunchTemplates"]}
        return {name for name in names if name.startswith(f"karpenter.k8s.aws/{cluster}/")}

    def profiles(self, cluster: str) -> set[str]:
        profiles = self.admin.iam.list_instance_profiles()["InstanceProfiles"]
        return {
            profile["InstanceProfileName"]
            for profile in profiles
            if profile["Path"].startswith(f"/karpenter/{REGION}/{cluster}/")
        }

    def changes(self) -> list[str]:
        """The actions of the calls that changed something, in order."""
        reading = ("Describe", "Get", "List")
        return [call["action"] for call in self.ec2.calls() if not call["action"].startswith(reading)]
