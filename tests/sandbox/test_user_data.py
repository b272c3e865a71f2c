"""AL2023's user data, read by AWS's own nodeadm: what the product writes, and what a user may get wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbox.ec2.catalogue import describe_type
from sandbox.ec2.nodes import eni_pods
from sandbox.ec2.userdata import nodeadm
from sandbox.ec2.userdata.nodeadm import merge
from sandbox.ec2.userdata.reader import UserDataReader
from sandbox.ec2.userdata.settings import BootFacts, KubeletSettings, UserDataRefusedError
from sandbox.nodeadm import NODEADM
from tenon.ec2.families import FAMILIES
from tenon.ec2.families.bootstrap import Bootstrap
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.types.capacity import NodeSettings, kube_reserved
from tenon.kube.taints import Taint
from tenon.resources import parse_resources

pytestmark = pytest.mark.integration

MIME = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo hello
--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config: {maxPods: 110}
    flags: ["--node-labels=team=a"]
--//
Content-Type: application/node.eks.aws

# Karpenter's part
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: sandbox, apiServerEndpoint: https://127.0.0.1, cidr: 10.96.0.0/16, certificateAuthority: Q0E=}
  instance: {localStorage: {strategy: RAID0}}
  kubelet:
    config:
      maxPods: 42
      kubeReserved: {cpu: 100m}
      registerWithTaints:
        - {key: karpenter.sh/unregistered, effect: NoExecute}
        - {key: dedicated, value: gpu, effect: NoSchedule}
    flags:
      - --node-labels="karpenter.sh/nodepool=default,karpenter.sh/capacity-type=spot"
      - --register-with-taints=dedicated=other:NoSchedule,extra:NoSchedule
--//--
"""


OWN = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {podsPerCore: 9}}}\n"
IMAGE = "amazon-eks-node-al2023-x86_64-standard-1.37-v20261101"
CLUSTER = Cluster("test", "us-west-2", endpoint="https://api.test", ca_bundle="Q0E=", service_cidr="10.100.0.0/16")


def facts(kind: str = "m5.large") -> BootFacts:
    described = describe_type(kind)
    assert described is not None
    return BootFacts(
        image=IMAGE,
        instance_id="i-1",
        instance_type=kind,
        zone="us-west-2a",
        region="us-west-2",
        private_ip="10.0.0.4",
        cpus=described["VCpuInfo"]["DefaultVCpus"],
        eni_pods=eni_pods(described),
        kubelet_version="v1.37.0-eks",
    )


@pytest.fixture(scope="module")
def program() -> Path:
    return NODEADM.ensure()


def read(program: Path, text: str, kind: str = "m5.large") -> KubeletSettings:
    return UserDataReader(program).read(text, facts(kind))


def bootstrap(**more: Any) -> Bootstrap:
    base = Bootstrap(
        cluster=CLUSTER,
        labels={"karpenter.sh/nodepool": "default", "example.com/team": "a"},
        taints=(Taint("dedicated", "NoSchedule", "gpu"), Taint("karpenter.sh/unregistered", "NoExecute")),
    )
    return replace(base, **more)


def test_aws097_nodeadm_merges_documents_and_later_ones_win(program: Path) -> None:
    settings = read(program, MIME)
    assert settings.labels == {"team": "a", "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot"}
    assert settings.max_pods == 42
    assert settings.kube_reserved["cpu"] == "100m"
    assert settings.raid0
    assert settings.cluster_dns == ("10.96.0.10",)


@pytest.mark.parametrize("text", ["y", "N", "7e3", "0o14", "0X1F", "1_e3", "true", "~", "007", "1.5e9"])
def test_aws097_nodeadm_reads_each_text_as_a_text(program: Path, text: str) -> None:
    """Its YAML has more booleans and numbers than Python's, and the kubelet does not start with one for a text."""
    kubelet = {"kubeReserved": {"memory": "1.5e9"}, "evictionHard": {"memory.available": "2e8"}}
    node = bootstrap(taints=(Taint("dedicated", "NoSchedule", text),), kubelet=kubelet)
    settings = read(program, FAMILIES["AL2023"].user_data(node))
    assert settings.taints == ({"key": "dedicated", "value": text, "effect": "NoSchedule"},)
    assert settings.kube_reserved["memory"] == "1.5e9"
    assert settings.eviction_hard["memory.available"] == "2e8"


@pytest.mark.parametrize("end", ["---\n", "---\nkind: Other\n"])
def test_aws097_nodeadm_reads_the_first_of_several_documents(program: Path, end: str) -> None:
    """It is the one that decides whether Tenon passes the text on as a NodeConfig."""
    assert read(program, FAMILIES["AL2023"].user_data(bootstrap(user_data=OWN + end))).pods_per_core == 9


def test_aws097_nodeadm_reads_letters_beyond_ascii(program: Path) -> None:
    own = f"# Größe → 🚀\n{OWN}"
    assert read(program, FAMILIES["AL2023"].user_data(bootstrap(user_data=own))).pods_per_core == 9


def test_a_flag_with_taints_replaces_the_taints_of_the_configuration(program: Path) -> None:
    """The kubelet applies its flags after its configuration files."""
    assert read(program, MIME).taints == (
        {"key": "dedicated", "effect": "NoSchedule", "value": "other"},
        {"key": "extra", "effect": "NoSchedule"},
    )


def test_aws095_what_the_product_writes_is_what_the_kubelet_uses(program: Path) -> None:
    kubelet = {
        "clusterDNS": ["1.2.3.4"],
        "podsPerCore": 8,
        "systemReserved": {"cpu": "100m", "memory": "1Gi"},
        "evictionHard": {"memory.available": "5%"},
        "podPidsLimit": 100,
    }
    node = bootstrap(kubelet=kubelet, max_pods=29, raid0=True, user_data="echo hello")
    settings = read(program, FAMILIES["AL2023"].user_data(node))
    assert settings.labels == node.labels
    assert [(taint["key"], taint.get("value", ""), taint["effect"]) for taint in settings.taints] == [
        (taint.key, taint.value, taint.effect) for taint in node.taints
    ]
    assert (settings.max_pods, settings.pods_per_core, settings.raid0) == (29, 8, True)
    assert settings.cluster_dns == ("1.2.3.4",)
    assert settings.system_reserved == kubelet["systemReserved"]
    assert settings.eviction_hard["memory.available"] == "5%"
    assert settings.eviction_hard["nodefs.available"] == "10%"


@pytest.mark.parametrize("kind", ["t3.micro", "m5.large", "c5.4xlarge", "m7g.large", "r5.24xlarge"])
def test_aws069_the_product_reserves_what_nodeadm_reserves(program: Path, kind: str) -> None:
    described = describe_type(kind)
    assert described is not None
    settings = read(program, FAMILIES["AL2023"].user_data(bootstrap()), kind)
    assert parse_resources(settings.kube_reserved) == kube_reserved(described, NodeSettings())


@pytest.mark.parametrize(
    ("user_data", "why"),
    [
        ("kind: NodeConfig\nspec: {}", "nodeadm: .*apiVersion"),
        ("apiVersion: node.eks.aws/v1alpha1\nkind: Nodeconfig", "no kind .Nodeconfig. is registered"),
        ("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {flags: no}}", "flags"),
        ("#!/bin/bash\nif true; then\n", "bash cannot parse a script"),
    ],
)
def test_a_users_mistake_keeps_the_node_from_joining(program: Path, user_data: str, why: str) -> None:
    with pytest.raises(UserDataRefusedError, match=why):
        read(program, FAMILIES["AL2023"].user_data(bootstrap(user_data=user_data)))


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (replace(CLUSTER, endpoint=""), "Apiserver endpoint is missing"),
        (replace(CLUSTER, ca_bundle="not base64!"), "illegal base64"),
        (replace(CLUSTER, service_cidr=""), "CIDR is missing"),
    ],
)
def test_a_node_needs_to_know_its_cluster(program: Path, cluster: Cluster, why: str) -> None:
    with pytest.raises(UserDataRefusedError, match=why):
        read(program, FAMILIES["AL2023"].user_data(bootstrap(cluster=cluster)))


def test_the_kubelet_refuses_a_value_of_a_wrong_type(program: Path) -> None:
    with pytest.raises(UserDataRefusedError, match=r"the kubelet refuses its configuration.*podPidsLimit"):
        read(program, FAMILIES["AL2023"].user_data(bootstrap(kubelet={"podPidsLimit": "many"})))


def test_user_data_without_a_document_for_nodeadm_is_refused(program: Path) -> None:
    for text in ("#!/bin/bash\necho hello\n", "", "[settings.kubernetes]\n"):
        with pytest.raises(UserDataRefusedError, match="nodeadm"):
            read(program, text)


def test_the_drop_in_file_is_a_merge_patch() -> None:
    base = {"evictionHard": {"a": "1", "b": "2"}, "clusterDNS": ["1"], "maxPods": 1}
    patch = {"evictionHard": {"b": "3"}, "clusterDNS": ["2"], "maxPods": None}
    assert merge(base, patch) == {"evictionHard": {"a": "1", "b": "3"}, "clusterDNS": ["2"]}


def test_nodeadm_runs_again_if_linux_says_that_the_kubelet_is_open_for_writing(tmp_path: Path) -> None:
    """While many instances boot, a child of another thread may hold the script open for a moment."""
    program = tmp_path / "nodeadm"
    answer = '{"generated": {"maxPods": 7}, "dropIn": {}, "flags": [], "localStorage": ""}'
    busy = "echo 'fork/exec /tmp/bin/kubelet: text file busy' >&2; exit 1"
    program.write_text(f"#!/bin/sh\nif mkdir {tmp_path}/ran 2>/dev/null; then {busy}; fi\necho '{answer}'\n")
    program.chmod(0o755)
    assert nodeadm.read(MIME, facts(), program).max_pods == 7
