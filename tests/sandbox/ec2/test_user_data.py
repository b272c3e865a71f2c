"""The readers of user data that need no program: Bottlerocket's, AL2's and Windows's, and the kubelet's own syntax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sandbox.ec2.userdata import al2, bottlerocket, windows
from sandbox.ec2.userdata.reader import family_of
from sandbox.ec2.userdata.settings import BootFacts, KubeletSettings, UserDataRefusedError, from_kubelet, parse_flags
from tenon.apis.ami_families import AMIFamily
from tenon.ec2.families import FAMILIES
from tenon.ec2.families.bootstrap import Bootstrap
from tenon.ec2.families.cluster import Cluster
from tenon.kube.taints import Taint

FACTS = BootFacts(
    image="",
    instance_id="i-1",
    instance_type="m5.large",
    zone="us-west-2a",
    region="us-west-2",
    private_ip="10.0.0.4",
    cpus=2,
    eni_pods=29,
    kubelet_version="v1.37.0",
)
CLUSTER = Cluster("test", "us-west-2", endpoint="https://api.test", ca_bundle="Q0E=", service_cidr="10.100.0.0/16")
HEAD = '[settings.kubernetes]\ncluster-name = "c"\napi-server = "https://c"\ncluster-certificate = "Q0E="\n'
READERS: dict[str, Callable[[str], KubeletSettings]] = {
    "AL2": lambda text: al2.read(text, FACTS),
    "Bottlerocket": lambda text: bottlerocket.read(text, FACTS),
    "Windows2022": windows.read,
}


def bootstrap(**more: Any) -> Bootstrap:
    base = Bootstrap(
        cluster=CLUSTER,
        labels={"karpenter.sh/nodepool": "default", "example.com/team": "a"},
        taints=(Taint("dedicated", "NoSchedule", "gpu"), Taint("karpenter.sh/unregistered", "NoExecute")),
        max_pods=29,
    )
    return replace(base, **more)


@pytest.mark.integration
@pytest.mark.parametrize("family", READERS)
def test_aws096_what_the_product_writes_is_what_the_kubelet_uses(family: AMIFamily) -> None:
    """AWS-096, AWS-098, AWS-099."""
    kubelet = {
        "clusterDNS": ["1.2.3.4"],
        "kubeReserved": {"cpu": "200m", "memory": "500Mi"},
        "systemReserved": {"memory": "1Gi"},
        "evictionHard": {"memory.available": "5%"},
    }
    node = bootstrap(kubelet=kubelet)
    settings = READERS[family](FAMILIES[family].user_data(node))
    assert settings.labels == node.labels
    assert [(taint["key"], taint.get("value", ""), taint["effect"]) for taint in settings.taints] == [
        (taint.key, taint.value, taint.effect) for taint in node.taints
    ]
    assert settings.max_pods == 29
    assert settings.cluster_dns == ("1.2.3.4",)
    assert settings.kube_reserved == kubelet["kubeReserved"]
    assert settings.system_reserved == kubelet["systemReserved"]
    assert settings.eviction_hard == kubelet["evictionHard"]


@pytest.mark.integration
@pytest.mark.parametrize("family", ["AL2", "Bottlerocket"])
def test_aws073_raid0_is_asked_for_in_the_familys_own_way(family: AMIFamily) -> None:
    assert READERS[family](FAMILIES[family].user_data(bootstrap(raid0=True))).raid0
    assert not READERS[family](FAMILIES[family].user_data(bootstrap())).raid0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("max-podz = 3", "unknown setting settings.kubernetes.max-podz"),
        ('max-pods = "3"', "settings.kubernetes.max-pods must be a number"),
        ('cluster-dns-ip = "1.2.3"', "is not an IP address"),
        ('[settings.kubernetes.eviction-hard]\n"memory.available" = "100%"', "less than 100 %"),
        ('[settings.kubernetes.kube-reserved]\npid = "100"', "is not one of cpu, memory, ephemeral-storage"),
        ('[settings.kubernetes.node-taints]\ndedicated = ["gpu"]', "a colon and an effect"),
        ('[settings.kubernetes.node-labels]\nteam = "a b"', "is not the value of a label"),
        ("[settings.motto]\nx = 1", "unknown setting settings.motto"),
        ("[settings.host-containers.admin]\nenabled = 1", "must be true or false"),
        ("[settings", "is not TOML"),
    ],
)
def test_aws098_bottlerocket_refuses_all_for_one_wrong_setting(more: str, why: str) -> None:
    with pytest.raises(UserDataRefusedError, match=why):
        bottlerocket.read(f"{HEAD}{more}\n", FACTS)


def test_aws098_settings_of_every_kind_are_taken() -> None:
    more = """image-gc-high-threshold-percent = "85"
image-gc-low-threshold-percent = 80
[settings.kubernetes.node-taints]
"dedicated" = ["gpu:NoSchedule", "gpu:NoExecute"]
"single" = ":NoSchedule"
[settings.host-containers.admin]
enabled = true
[settings.kernel.sysctl]
"net.core.somaxconn" = "1024"
[settings.kernel]
lockdown = "integrity"
[settings.bootstrap-containers.setup]
source = "example.com/setup:1"
mode = "once"
[[settings.container-registry.mirrors]]
registry = "*"
endpoint = ["https://mirror.example.com"]
[settings.network]
no-proxy = ["localhost"]
hosts = [["10.0.0.1", ["a", "b"]]]
"""
    settings = bottlerocket.read(f"{HEAD}{more}", FACTS)
    assert [(taint["key"], taint.get("value"), taint["effect"]) for taint in settings.taints] == [
        ("dedicated", "gpu", "NoSchedule"),
        ("dedicated", "gpu", "NoExecute"),
        ("single", None, "NoSchedule"),
    ]
    assert settings.max_pods == 29


def test_bottlerocket_needs_to_know_its_cluster() -> None:
    with pytest.raises(UserDataRefusedError, match=r"settings\.kubernetes\.api-server"):
        bottlerocket.read('[settings.kubernetes]\ncluster-name = "c"\ncluster-certificate = "Q0E="\n', FACTS)
    with pytest.raises(UserDataRefusedError, match="no table 'settings'"):
        bottlerocket.read("", FACTS)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo hello", "no script calls /etc/eks/bootstrap.sh"),
        ("/etc/eks/bootstrap.sh test --max-pods 3", "bootstrap.sh has no option --max-pods"),
        ("/etc/eks/bootstrap.sh --use-max-pods false", "takes one cluster name"),
        ("/etc/eks/bootstrap.sh test --b64-cluster-ca ?", "is not base64"),
        ("/etc/eks/bootstrap.sh test --kubelet-extra-args", "has no value"),
        ("/etc/eks/bootstrap.sh 'test", "bash cannot parse"),
        ("/etc/eks/bootstrap.sh test --kubelet-extra-args nonsense", "refuses the argument"),
    ],
)
def test_aws096_bootstrap_sh_refuses_wrong_arguments(script: str, why: str) -> None:
    with pytest.raises(UserDataRefusedError, match=why):
        al2.read(f"#!/bin/bash\n{script}\n", FACTS)


@pytest.mark.integration
def test_al2_computes_max_pods_unless_a_flag_says_otherwise() -> None:
    assert al2.read("#!/bin/bash\n/etc/eks/bootstrap.sh test\n", FACTS).max_pods == 29
    assert al2.read("#!/bin/bash\n/etc/eks/bootstrap.sh test --use-max-pods false\n", FACTS).max_pods is None


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("& Start-EKSBootstrap.ps1 -EKSClusterName 'test", "no closing quotation mark"),
        ("if ($true) {\n& Start-EKSBootstrap.ps1 -EKSClusterName test", "missing closing '}'"),
        ("Write-Host hello", "does not call"),
        ("& Start-EKSBootstrap.ps1 -ClusterName test", "has no parameter -ClusterName"),
        ("& Start-EKSBootstrap.ps1 -EKSClusterName", "has no value"),
    ],
)
def test_aws099_a_broken_powershell_script_is_refused(script: str, why: str) -> None:
    with pytest.raises(UserDataRefusedError, match=why):
        windows.read(f"<powershell>\n{script}\n</powershell>")


def test_windows_runs_only_its_own_block() -> None:
    with pytest.raises(UserDataRefusedError, match="between <powershell> and </powershell>"):
        windows.read("& Start-EKSBootstrap.ps1 -EKSClusterName test")


def test_flags_are_read_as_the_kubelet_reads_them() -> None:
    flags = ['--node-labels="a=b"', "--node-labels=c=d", "--max-pods 7", "--v", "--register-with-taints=k=v:NoSchedule"]
    assert parse_flags(flags)["node-labels"] == ["a=b", "c=d"]
    config = {"maxPods": 3, "registerWithTaints": [{"key": "own", "effect": "NoExecute"}]}
    settings = from_kubelet(config, flags)
    assert settings.labels == {"a": "b", "c": "d"}
    assert settings.max_pods == 7
    assert settings.taints == ({"key": "k", "effect": "NoSchedule", "value": "v"},)
    assert from_kubelet(config, []).taints == ({"key": "own", "effect": "NoExecute"},)
    assert from_kubelet(config, ["--register-with-taints=a:NoSchedule", *flags]).taints == settings.taints
    assert from_kubelet(config, [*flags, "--register-with-taints="]).taints == ()
    for wrong in ("--max-pods=many", "--register-with-taints=k", "--node-labels='a", "stray"):
        with pytest.raises(UserDataRefusedError):
            from_kubelet({}, [wrong])


@pytest.mark.parametrize(
    ("image", "family"),
    [
        ("amazon-eks-node-al2023-arm64-standard-1.37-v20261101", "AL2023"),
        ("amazon-eks-node-1.32-v20251101", "AL2"),
        ("amazon-eks-gpu-node-1.32-v20251101", "AL2"),
        ("bottlerocket-aws-k8s-1.37-x86_64-v1.50.0", "Bottlerocket"),
        ("Windows_Server-2022-English-Core-EKS_Optimized-1.37-2026.11.01", "Windows"),
        ("our-own-image", "AL2023"),
    ],
)
def test_the_image_decides_the_reader(image: str, family: str) -> None:
    assert family_of(image) == family
