"""A managed node group of EKS, or an Auto Scaling group, with its sizes. Blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from tenon.errors import TenonError

REBALANCING = "AZRebalance"
"""The process of Auto Scaling that launches instances because zones have become uneven, as they do in a drain."""


class GroupError(TenonError):
    """AWS refuses, or the group does not exist. The message is one sentence."""


@dataclass(slots=True)
class ScalingGroup:
    """The group, and the clients to change it."""

    name: str
    auto_scaling: str
    """Name of the Auto Scaling group."""
    cluster: str
    """The EKS cluster of a managed node group; empty for an Auto Scaling group of one's own."""
    minimum: int
    desired: int
    instances: list[str]
    _eks: Any = field(repr=False)
    _scaling: Any = field(repr=False)
    _suspended: set[str] = field(default_factory=set, repr=False)
    """Processes of Auto Scaling that are suspended."""
    _resumes: bool = field(default=False, repr=False)
    """Whether this run has suspended `REBALANCING`, so that it resumes it."""

    @classmethod
    def of(cls, name: str, cluster: str, region: str | None) -> ScalingGroup:
        """Find the node group of this name in the cluster, else the Auto Scaling group of this name.

        Raises:
            GroupError: there is none, the cluster does not exist, or AWS refuses.
        """
        with _translated(f"node group {name}"):
            session: Any = boto3.Session(region_name=region)
            eks, scaling = session.client("eks"), session.client("autoscaling")
            managed = _managed(eks, cluster, name)
            groups = (managed or {}).get("resources", {}).get("autoScalingGroups") or [{"name": name}]
            group = cls(name, str(groups[0]["name"]), cluster if managed else "", 0, 0, [], eks, scaling)
        group.refresh()
        return group

    def refresh(self) -> None:
        """Read sizes and instances again.

        Raises:
            GroupError: the group is gone, or AWS refuses.
        """
        with _translated(f"Auto Scaling group {self.auto_scaling}"):
            answer = self._scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[self.auto_scaling])
        groups = answer["AutoScalingGroups"]
        if not groups:
            raise GroupError(f"Neither a node group nor an Auto Scaling group is called {self.name}.")
        self.minimum, self.desired = groups[0]["MinSize"], groups[0]["DesiredCapacity"]
        self._suspended = {item["ProcessName"] for item in groups[0]["SuspendedProcesses"]}
        self.instances = [
            item["InstanceId"] for item in groups[0]["Instances"] if not item["LifecycleState"].startswith("Terminat")
        ]

    def lower_minimum(self, minimum: int) -> None:
        """Let the group shrink to this size, and launch nothing to even zones out.

        Raises:
            GroupError: AWS refuses.
        """
        with _translated(f"node group {self.name}"):
            if self.minimum > minimum:
                if self.cluster:
                    self._eks.update_nodegroup_config(
                        clusterName=self.cluster, nodegroupName=self.name, scalingConfig={"minSize": minimum}
                    )
                self._scaling.update_auto_scaling_group(AutoScalingGroupName=self.auto_scaling, MinSize=minimum)
                self.minimum = minimum
            if REBALANCING in self._suspended:
                return
            # Last, so that a call that is refused leaves nothing suspended.
            self._scaling.suspend_processes(AutoScalingGroupName=self.auto_scaling, ScalingProcesses=[REBALANCING])
            self._resumes = True

    def terminate(self, instance: str) -> None:
        """End an instance, and make the group smaller by it, so that no other takes its place.

        Raises:
            GroupError: AWS refuses.
        """
        with _translated(f"instance {instance}"):
            self._scaling.terminate_instance_in_auto_scaling_group(
                InstanceId=instance, ShouldDecrementDesiredCapacity=True
            )

    def finish(self) -> bool:
        """Let Auto Scaling even out zones again, and return True, unless that was suspended before this run.

        Raises:
            GroupError: AWS refuses.
        """
        if not self._resumes:
            return False
        with _translated(f"node group {self.name}"):
            self._scaling.resume_processes(AutoScalingGroupName=self.auto_scaling, ScalingProcesses=[REBALANCING])
        return True


def _managed(eks: Any, cluster: str, name: str) -> dict[str, Any] | None:
    if not cluster:
        return None
    try:
        answer: dict[str, Any] = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
    except ClientError as error:
        if not _is_missing(error):
            raise
    else:
        return answer
    try:
        eks.describe_cluster(name=cluster)
    except ClientError as error:
        if _is_missing(error):
            raise GroupError(
                f"EKS has no cluster {cluster!r}: correct --cluster (or CLUSTER_NAME) or --region, or leave the "
                "cluster out for an Auto Scaling group."
            ) from error
        raise
    return None


def _is_missing(error: ClientError) -> bool:
    return bool(error.response["Error"]["Code"] == "ResourceNotFoundException")


@contextmanager
def _translated(subject: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise GroupError(f"AWS refuses a call about {subject}: {error}") from error
