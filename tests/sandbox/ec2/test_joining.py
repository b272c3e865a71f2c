"""From user data and type to Node, without a cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sandbox.ec2.boot import BootPlan, BootRule
from sandbox.ec2.catalogue import describe_type
from sandbox.ec2.instance_facts import boot_facts, instance_facts, user_data
from sandbox.ec2.nodes import InstanceFacts, allocatable, capacity, eni_pods, node
from sandbox.ec2.userdata.settings import KubeletSettings
from tenon.ec2.types.capacity import NodeSettings, memory_bytes
from tenon.resources import parse_resources
from tests.sandbox.ec2.conftest import TEMPLATE, Aws


def facts(kind: str = "m7g.large", **more: Any) -> InstanceFacts:
    architecture = "arm64" if kind.startswith("m7g") else "x86_64"
    name = "ip-10-0-0-4.us-west-2.compute.internal"
    base = {"instance_id": "i-1", "instance_type": kind, "zone": "us-west-2a", "region": "us-west-2"}
    return InstanceFacts(
        **{**base, "architecture": architecture, "private_ip": "10.0.0.4", "private_dns_name": name, **more}
    )


def kind_of(name: str) -> dict[str, Any]:
    result = describe_type(name)
    assert result is not None
    return result


@pytest.mark.parametrize("name", ["m7g.large", "c7i.48xlarge", "t3.micro", "g5.xlarge", "r7g.16xlarge"])
def test_resources_follow_the_formulas(name: str) -> None:
    """AWS-060 to AWS-072."""
    architecture = "arm64" if "g." in name and name[0] in "mr" else "x86_64"
    actual_value = capacity(kind_of(name), facts(name, architecture=architecture), KubeletSettings())
    resources = allocatable(kind_of(name), actual_value, KubeletSettings())
    assert all(0 < resources[key] <= actual_value[key] for key in actual_value)
    assert resources["pods"] == eni_pods(kind_of(name))
    if name == "m7g.large":
        survivors = {"memory": actual_value["memory"] - 674 * 2**20}
        assert resources == parse_resources({"cpu": "1930m", "pods": "29", "ephemeral-storage": "17Gi"}) | survivors


def test_a_kubelet_reports_memory_that_cannot_be_computed_beforehand() -> None:
    """AWS-061: a figure for each type and kernel, the same on every machine, and never less than plans count with."""
    shares = set()
    for name in ("m7g.large", "c7i.48xlarge", "t3.micro", "g5.xlarge", "r7g.16xlarge"):
        kind = kind_of(name)
        architecture = "arm64" if "7g." in name else "x86_64"
        instance_facts = facts(name, architecture=architecture)
        memory = capacity(kind, instance_facts, KubeletSettings())["memory"]
        assert capacity(kind, replace(instance_facts, instance_id="i-2"), KubeletSettings())["memory"] == memory
        assert capacity(kind, replace(instance_facts, kernel="6.18"), KubeletSettings())["memory"] != memory
        assert memory_bytes(kind, NodeSettings()) < memory < kind["MemoryInfo"]["SizeInMiB"] * 2**20
        shares.add(round(memory / (kind["MemoryInfo"]["SizeInMiB"] * 2**20), 4))
    assert len(shares) == 5


def test_kubelet_settings_change_pods_reserves_and_thresholds() -> None:
    """AWS-063, AWS-069 to AWS-071."""
    settings = KubeletSettings(
        max_pods=110,
        pods_per_core=10,
        kube_reserved={"cpu": "500m"},
        system_reserved={"cpu": "100m", "memory": "100Mi"},
        eviction_hard={"memory.available": "100%"},
    )
    actual_value = capacity(kind_of("m7g.large"), facts(), settings)
    assert actual_value["pods"] == 20
    resources = allocatable(kind_of("m7g.large"), actual_value, settings)
    assert resources["cpu"] == 2000 - 600
    assert actual_value["memory"] - resources["memory"] == (255 + 11 * 29 + 100) * 2**20


def test_instance_store_and_accelerators_count() -> None:
    """AWS-062, AWS-073."""
    kind = kind_of("g5.xlarge")
    actual_value = capacity(kind, facts("g5.xlarge"), KubeletSettings(raid0=True))
    assert actual_value["nvidia.com/gpu"] == 1
    assert actual_value["ephemeral-storage"] == kind["InstanceStorageInfo"]["TotalSizeInGB"] * 10**9
    assert capacity(kind, facts("g5.xlarge"), KubeletSettings())["ephemeral-storage"] == 20 * 2**30


def test_a_new_node_is_not_ready_and_unknown_to_the_cloud_controller() -> None:
    settings = KubeletSettings(
        labels={"karpenter.sh/nodepool": "default"},
        taints=({"key": "karpenter.sh/unregistered", "effect": "NoExecute"},),
        kube_reserved={"cpu": "100m"},
    )
    output = node(kind_of("m7g.large"), facts(), settings, datetime(2026, 1, 1, tzinfo=UTC), "v1.37.0")
    assert output["metadata"]["name"] == "ip-10-0-0-4.us-west-2.compute.internal"
    assert output["spec"]["providerID"] == "aws:///us-west-2a/i-1"
    labels = output["metadata"]["labels"]
    assert labels["kubernetes.io/arch"] == "arm64"
    assert labels["topology.kubernetes.io/zone"] == "us-west-2a"
    assert labels["node.kubernetes.io/instance-type"] == "m7g.large"
    assert labels["karpenter.sh/nodepool"] == "default"
    taints = {(taint["key"], taint["effect"]) for taint in output["spec"]["taints"]}
    assert ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule") in taints
    assert ("karpenter.sh/unregistered", "NoExecute") in taints
    ready = {condition["type"]: condition["status"] for condition in output["status"]["conditions"]}["Ready"]
    assert ready == "False"
    assert output["status"]["allocatable"]["cpu"] == "1900m"


def test_the_newest_boot_rule_that_fits_wins() -> None:
    plan = BootPlan(default_delay=8)
    assert plan.due("m7g.large", 100.0, 107.9) is False
    assert plan.due("m7g.large", 100.0, 108.0) is True
    assert plan.due("m7g.large", None, 999.0) is False
    plan.add(BootRule(delay=1))
    plan.add(BootRule(instance_type="c7g.large", never=True))
    assert plan.due("m7g.large", 100.0, 101.0) is True
    assert plan.due("c7g.large", 100.0, 10_000.0) is False
    plan.clear()
    assert plan.due("c7g.large", 100.0, 108.0) is True


@pytest.mark.integration
def test_user_data_and_disk_come_from_the_launch_template(aws: Aws) -> None:
    aws.ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
    aws.template(
        user_data="#!/bin/bash\n", BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 50}}]
    )
    machine = aws.server.world.book.get(aws.launch())
    assert machine is not None
    assert user_data(machine) == "#!/bin/bash\n"
    entries = instance_facts(machine)
    assert entries.disk_gib == 50
    boot = boot_facts(machine, entries, kind_of("m7g.large"))
    assert boot.image.startswith("amazon-eks-node-al2023-arm64-standard-")
    assert (boot.cpus, boot.eni_pods) == (2, 29)


@pytest.mark.integration
def test_the_console_shows_what_the_first_boot_said(aws: Aws) -> None:
    instance_id = aws.launch()
    machine = aws.server.world.book.get(instance_id)
    assert machine is not None
    machine.console.append("the first boot refused it")
    assert aws.ec2.get_console_output(InstanceId=instance_id)["Output"] == "the first boot refused it\r\n"


def test_price_file_of_the_project_is_a_price_file(tmp_path: Path) -> None:
    from sandbox.ec2.prices import read_prices

    assert read_prices().price("spot", "m7g.large")
    broken = tmp_path / "us-west-2.json"
    broken.write_text(json.dumps([1]))
    with pytest.raises(ValueError, match=r"us-west-2\.json is not a price file"):
        read_prices(tables=tmp_path)
