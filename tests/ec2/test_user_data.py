"""What a booting instance is told."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from email import message_from_string
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sandbox.ec2.userdata.archive import scripts
from tenon.apis.ami_families import AMIFamily
from tenon.ec2.families import FAMILIES
from tenon.ec2.families.al2023 import RegistrationTaintsError
from tenon.ec2.families.base import UserDataTooLargeError
from tenon.ec2.families.bootstrap import Bootstrap, dns_address, node_labels, node_taints
from tenon.ec2.families.bottlerocket import BottlerocketSettingError, to_toml
from tenon.ec2.families.cluster import Cluster
from tenon.kube.taints import Taint
from tests.ec2.samples import CLUSTER

LABELS = node_labels({"karpenter.sh/nodepool": "default", "team": "blue"}, "spot")
LABELS_TEXT = [
    "karpenter.sh/capacity-type=spot",
    "karpenter.sh/do-not-sync-taints=true",
    "karpenter.sh/nodepool=default",
    "team=blue",
]
TAINTS = node_taints([Taint("dedicated", "NoSchedule", "gpu")], [Taint("cni", "NoExecute")])


def bootstrap(**changes: Any) -> Bootstrap:
    return Bootstrap(**{"cluster": CLUSTER, "labels": LABELS, "taints": TAINTS, "max_pods": 29, **changes})


def parts(text: str) -> list[tuple[str, str]]:
    archive = message_from_string(text)
    return [(part.get_content_type(), str(part.get_payload())) for part in archive.walk() if not part.is_multipart()]


def test_al2023_golden() -> None:
    """AWS-097, AWS-101: the whole document of a plain node."""
    assert (
        FAMILIES["AL2023"].user_data(bootstrap())
        == """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

"apiVersion": "node.eks.aws/v1alpha1"
"kind": "NodeConfig"
"spec":
  "cluster":
    "apiServerEndpoint": "https://api.test"
    "certificateAuthority": "Q0E="
    "cidr": "10.100.0.0/16"
    "name": "test"
  "kubelet":
    "config":
      "clusterDNS":
      - "10.100.0.10"
      "maxPods": 29
      "registerWithTaints":
      - "effect": "NoExecute"
        "key": "cni"
      - "effect": "NoSchedule"
        "key": "dedicated"
        "value": "gpu"
      - "effect": "NoExecute"
        "key": "karpenter.sh/unregistered"
    "flags":
    - "--node-labels=LABELS"

--//--
""".replace("LABELS", ",".join(LABELS_TEXT))
    )


def test_al2023_own_documents_come_first() -> None:
    """AWS-097: nodeadm lets later documents win, so that Tenon's is last."""
    own = "kind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 5\n"
    script = "#!/bin/bash\necho hello\n"
    mime = "\n".join(
        [
            "MIME-Version: 1.0",
            'Content-Type: multipart/mixed; boundary="b"',
            "",
            f"--b\nContent-Type: text/x-shellscript\n\n{script}",
            f"--b\nContent-Type: application/node.eks.aws\n\n{own}",
            "--b--",
        ]
    )
    for text, kinds in (
        (own, ["application/node.eks.aws"]),
        (script, ["text/x-shellscript"]),
        (mime, ["text/x-shellscript", "application/node.eks.aws"]),
    ):
        result = parts(FAMILIES["AL2023"].user_data(bootstrap(user_data=text)))
        assert [kind for kind, _ in result] == [*kinds, "application/node.eks.aws"]
        assert yaml.safe_load(result[-1][1])["spec"]["kubelet"]["config"]["maxPods"] == 29
    assert "echo hello" in result[0][1]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("echo hello", "text/x-shellscript"),
        ("set -e\nfor each in a b; do echo $each; done", "text/x-shellscript"),
        ("mkdir -p /x && { echo a: b; }", "text/x-shellscript"),
        ("#!/bin/bash\necho", "text/x-shellscript"),
        ("- a\n- b", "text/x-shellscript"),
        ("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig", "application/node.eks.aws"),
        ("---\nkind: NodeConfig\n---\n", "application/node.eks.aws"),
        ("kind: NodeConfig\n---\nkind: [", "application/node.eks.aws"),
        ("---\n---\nkind: NodeConfig\n", "text/x-shellscript"),
    ],
)
def test_aws097_text_that_is_no_kubernetes_object_is_a_shell_script(text: str, kind: str) -> None:
    """nodeadm refuses a document that it cannot read, and the node never joins."""
    first, last = parts(FAMILIES["AL2023"].user_data(bootstrap(user_data=text)))
    assert (first[0], last[0]) == (kind, "application/node.eks.aws")


@pytest.mark.parametrize(
    "flag", ["--register-with-taints=a=b:NoSchedule", "--register_with_taints=", "-register-with-taints"]
)
def test_tnt02_a_users_flag_cannot_take_the_registration_taints_away(flag: str) -> None:
    """AWS-097: the kubelet would take only the flag's taints, so the class says what to remove."""
    own = yaml.safe_dump(
        {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"kubelet": {"flags": ["--v=2", flag]}}}
    )
    mime = "\n".join(
        [
            "MIME-Version: 1.0",
            'Content-Type: multipart/mixed; boundary="b"',
            "",
            f"--b\nContent-Type: application/node.eks.aws\n\n{own}",
            "--b--",
        ]
    )
    for text in (own, mime, f"{own}---\n"):
        with pytest.raises(RegistrationTaintsError, match="use the taints of the NodePool"):
            FAMILIES["AL2023"].user_data(bootstrap(user_data=text))
    for allowed in (
        own.replace(flag, "--v=3"),
        f"#!/bin/bash\necho {flag}",
        "apiVersion: a\nkind: [",
        "kind: 3\nspec: 4",
    ):
        assert FAMILIES["AL2023"].user_data(bootstrap(user_data=allowed))


def test_al2023_passes_kubelet_settings_on() -> None:
    """EC-13: known and unknown settings; the class's DNS wins; RAID0 asks nodeadm for it."""
    kubelet = {"clusterDNS": ["1.2.3.4"], "evictionHard": {"memory.available": "5%"}, "podPidsLimit": 100}
    (_, text), *_ = parts(FAMILIES["AL2023"].user_data(bootstrap(kubelet=kubelet, raid0=True)))
    spec = yaml.safe_load(text)["spec"]
    assert spec["kubelet"]["config"] | kubelet == spec["kubelet"]["config"]
    assert spec["instance"] == {"localStorage": {"strategy": "RAID0"}}


def test_al2_script() -> None:
    """AWS-096, N15-348: the user's script first, then bootstrap.sh with kubelet flags, and the number of pods."""
    kubelet = {"systemReserved": {"memory": "1Gi", "cpu": "100m"}, "evictionHard": {"memory.available": "5%"}}
    result = parts(FAMILIES["AL2"].user_data(bootstrap(user_data="echo first", kubelet=kubelet, raid0=True)))
    assert [kind for kind, _ in result] == ["text/x-shellscript"] * 2
    script = result[1][1]
    assert script.startswith("#!/bin/bash -xe\n/etc/eks/bootstrap.sh test --apiserver-endpoint https://api.test")
    for argument in (
        "--b64-cluster-ca Q0E=",
        "--dns-cluster-ip 10.100.0.10",
        "--local-disks raid0",
        "--use-max-pods false",
        "--max-pods=29",
        "--system-reserved=cpu=100m,memory=1Gi",
        "--eviction-hard=memory.available<5%",
        "--register-with-taints=cni=:NoExecute,dedicated=gpu:NoSchedule,karpenter.sh/unregistered=:NoExecute",
    ):
        assert argument in script


def test_an_archive_without_its_closing_boundary_gets_no_empty_part() -> None:
    """AWS-097: cloud-init would try to run the empty script."""
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="X"\n\n'
    own = f"{head}--X\nContent-Type: text/x-shellscript\n\necho\n--X\n"
    result = parts(FAMILIES["AL2023"].user_data(bootstrap(user_data=own)))
    assert [kind for kind, _ in result] == ["text/x-shellscript", "application/node.eks.aws"]


@pytest.mark.parametrize("family", ["AL2", "AL2023"])
@pytest.mark.parametrize("head", ["", 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="X"\n\n'])
def test_aws096_aws097_letters_beyond_ascii_reach_the_script(family: AMIFamily, head: str) -> None:
    """cloud-init replaces them in a part that does not state its encoding."""
    script = "#!/bin/bash\necho 'Größe → 🚀' a=b  \n\techo " + "x" * 200
    own = f"{head}--X\nContent-Type: text/x-shellscript\n\n{script}\n--X--\n" if head else script
    first, *_ = scripts(FAMILIES[family].user_data(bootstrap(user_data=own)))
    assert first.strip() == script


def test_aws096_al2_joins_an_ipv6_cluster() -> None:
    """bootstrap.sh takes the family from an argument only, and a node of the wrong family does not join."""
    ipv6 = replace(CLUSTER, service_cidr="fd00:1::/108", dns_ip="fd00:1::a")
    (_, script), *_ = parts(FAMILIES["AL2"].user_data(bootstrap(cluster=ipv6)))
    assert "--ip-family ipv6" in script
    (_, script), *_ = parts(FAMILIES["AL2"].user_data(bootstrap()))
    assert "--ip-family" not in script


@pytest.mark.parametrize(
    "own",
    [
        '[settings.kubernetes.node-taints]\ndedicated = ["team:NoSchedule"]\n',
        'settings.kubernetes.node-taints.dedicated = "team:NoSchedule"\n',
    ],
)
def test_tnt02_taints_in_the_settings_of_bottlerocket_are_refused(own: str) -> None:
    """Plans would not know them, so Tenon would buy nodes again and again for pods that fit on none."""
    with pytest.raises(BottlerocketSettingError, match=r"node-taints.*NodePool"):
        FAMILIES["Bottlerocket"].user_data(bootstrap(user_data=own))


def test_n15_387_memory_that_a_user_keeps_for_the_memory_manager_stays() -> None:
    own = '[settings.kubernetes.memory-manager-reserved-memory."0"]\nenabled = true\nmemory = "1Gi"\n'
    settings = tomllib.loads(FAMILIES["Bottlerocket"].user_data(bootstrap(user_data=own)))["settings"]
    reserved = settings["kubernetes"]["memory-manager-reserved-memory"]
    assert reserved == {"0": {"enabled": True, "memory": "1Gi"}}


def test_n15_349_bottlerocket_gets_soft_evictions() -> None:
    soft, grace = {"memory.available": "500Mi"}, {"memory.available": "1m"}
    kubelet = {"evictionSoft": soft, "evictionSoftGracePeriod": grace, "evictionMaxPodGracePeriod": 60}
    settings = tomllib.loads(FAMILIES["Bottlerocket"].user_data(bootstrap(kubelet=kubelet)))["settings"]["kubernetes"]
    assert (settings["eviction-soft"], settings["eviction-soft-grace-period"]) == (soft, grace)


def test_bottlerocket_settings_win_over_the_users() -> None:
    """AWS-098."""
    own = '[settings.kubernetes]\nmax-pods = 5\nallowed-unsafe-sysctls = ["net.*"]\n\n[settings.motd]\nx = 1\n'
    kubelet = {"imageGCHighThresholdPercent": 80, "kubeReserved": {"cpu": "1"}, "cpuCFSQuota": False}
    node = bootstrap(user_data=own, kubelet=kubelet, raid0=True)
    settings = tomllib.loads(FAMILIES["Bottlerocket"].user_data(node))["settings"]
    kubernetes = settings["kubernetes"]
    assert settings["motd"] == {"x": 1}
    assert kubernetes["max-pods"] == 29
    assert kubernetes["allowed-unsafe-sysctls"] == ["net.*"]
    assert kubernetes["node-labels"] == LABELS
    assert kubernetes["node-taints"]["dedicated"] == ["gpu:NoSchedule"]
    assert kubernetes["image-gc-high-threshold-percent"] == "80"
    assert kubernetes["cpu-cfs-quota-enforced"] is False
    assert kubernetes["cluster-dns-ip"] == "10.100.0.10"


ALL_DIRECTORIES = ["apiclient", "ephemeral-storage", "bind"]
THREE = [*ALL_DIRECTORIES, "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]


@pytest.mark.parametrize(
    ("image", "command"),
    [
        ("bottlerocket-aws-k8s-1.36-x86_64-v1.50.0-1a2b3c4d", ALL_DIRECTORIES),
        ("bottlerocket-aws-k8s-1.36-nvidia-aarch64-v1.46.0", ALL_DIRECTORIES),
        ("bottlerocket-aws-k8s-1.34-x86_64-v1.45.1-1a2b3c4d", THREE),
        ("bottlerocket-aws-k8s-1.34-x86_64-v2.0.0", ALL_DIRECTORIES),
        ("our-own-image", THREE),
        ("", THREE),
    ],
)
def test_aws098_from_1_46_bottlerocket_says_which_directories_go_to_local_disks(image: str, command: list[str]) -> None:
    """They are more than three where the image has another snapshotter. Earlier versions, and images that do not say
    their version, get the three that each version knows.
    """
    node = bootstrap(raid0=True, image_name=image)
    settings = tomllib.loads(FAMILIES["Bottlerocket"].user_data(node))["settings"]
    mount = settings["bootstrap-commands"]["000-mount-instance-storage"]
    assert mount == {
        "commands": [["apiclient", "ephemeral-storage", "init"], command],
        "essential": True,
        "mode": "always",
    }


@pytest.mark.parametrize(
    ("kubelet", "why"),
    [
        ({"systemReserved": {"pid": "100"}}, r"systemReserved\[pid\]"),
        ({"kubeReserved": {"cpu": "1", "pid": "100"}}, r"kubeReserved\[pid\]"),
        ({"evictionHard": {"memory.available": "100%"}}, r"evictionHard\[memory.available\]"),
        ({"evictionSoft": {"nodefs.available": "100.0%"}}, r"evictionSoft\[nodefs.available\]"),
    ],
)
def test_aws098_what_bottlerocket_would_refuse_is_said_on_the_class(kubelet: dict[str, Any], why: str) -> None:
    """It takes all of its user data or nothing, so the node would never join."""
    with pytest.raises(ValueError, match=why):
        FAMILIES["Bottlerocket"].user_data(bootstrap(kubelet=kubelet))


def test_bottlerocket_refuses_what_is_no_toml() -> None:
    with pytest.raises(ValueError, match="must be TOML"):
        FAMILIES["Bottlerocket"].user_data(bootstrap(user_data="echo hello"))


def test_custom_is_untouched() -> None:
    """AWS-100."""
    assert FAMILIES["Custom"].user_data(bootstrap(user_data="anything\n")) == "anything\n"


def test_windows_runs_the_users_script_first() -> None:
    """AWS-099."""
    text = FAMILIES["Windows2022"].user_data(bootstrap(user_data="<powershell>\nWrite-Host hi\n</powershell>"))
    assert text.startswith("<powershell>\nWrite-Host hi\n& ")
    assert text.count("powershell>") == 2
    assert "-EKSClusterName 'test'" in text


def test_size_limit() -> None:
    """EC-10."""
    with pytest.raises(UserDataTooLargeError, match="16384"):
        FAMILIES["Custom"].user_data(bootstrap(user_data="x" * 16385))
    assert FAMILIES["Custom"].user_data(bootstrap(user_data="x" * 16384))


def test_labels_of_a_node() -> None:
    """AWS-101: bookkeeping of a batch and labels a kubelet may not set stay out, so that templates are shared."""
    template = {
        "tenon.sh/batch": "9",
        "topology.kubernetes.io/zone": "us-west-2a",
        "node-role.kubernetes.io/worker": "",
        "node.kubernetes.io/purpose": "web",
        "example.com/team": "blue",
    }
    assert node_labels(template, "spot") == {
        "node.kubernetes.io/purpose": "web",
        "example.com/team": "blue",
        "karpenter.sh/capacity-type": "spot",
        "karpenter.sh/do-not-sync-taints": "true",
    }


@pytest.mark.parametrize(
    ("cluster", "address"),
    [
        (Cluster("c", "r", service_cidr="172.20.0.0/16"), "172.20.0.10"),
        (Cluster("c", "r", service_cidr="fd00::/108"), "fd00::a"),
        (Cluster("c", "r", service_cidr="172.20.0.0/16", dns_ip="1.1.1.1"), "1.1.1.1"),
        (Cluster("c", "r"), ""),
    ],
)
def test_dns_address(cluster: Cluster, address: str) -> None:
    """AWS-102."""
    assert dns_address(cluster) == address


PLAIN = st.text(st.characters(codec="utf-8")) | st.integers(-(2**63), 2**63 - 1) | st.booleans()
TOML = st.recursive(
    PLAIN | st.lists(PLAIN, max_size=3),
    lambda inner: st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), TOML, max_size=4))
def test_toml_survives_being_written(document: dict[str, Any]) -> None:
    """The user's settings must come out as they went in, whatever characters they hold."""
    assert tomllib.loads(to_toml(document)) == document
