"""What containerd, the network plugins and the kubelet read at their start."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.ec2.region import REGION
from sandbox.kubelet import ADDRESS, KUBELET_PORT, NODE, POD_CIDR, ROLE
from sandbox.kubelet.images import PAUSE_IMAGE, SOCKET
from sandbox.kubelet.programs import NodePrograms
from sandbox.layout import Layout


@dataclass(frozen=True)
class Files:
    """The files of the node, below one folder of the sandbox's state."""

    folder: Path

    @property
    def containerd(self) -> Path:
        return self.folder / "containerd.toml"

    @property
    def kubelet(self) -> Path:
        return self.folder / "kubelet.yaml"

    @property
    def networks(self) -> Path:
        return self.folder / "cni"

    @property
    def resolver(self) -> Path:
        return self.folder / "resolv.conf"

    @property
    def pause_archive(self) -> Path:
        return self.folder / "pause.tar"


def write(layout: Layout, programs: NodePrograms, cgroup: str) -> Files:
    """Write all files."""
    files = Files(layout.node)
    files.networks.mkdir(parents=True, exist_ok=True)
    files.containerd.write_text(containerd(layout, programs))
    (files.networks / "10-pods.conflist").write_text(json.dumps(network()))
    files.kubelet.write_text(yaml.safe_dump(kubelet(layout, files, cgroup), sort_keys=False))
    files.resolver.write_text("")  # the machine's may name servers that the node cannot reach
    return files


def containerd(layout: Layout, programs: NodePrograms) -> str:
    """The configuration of containerd."""
    return f"""\
version = 2
root = "{layout.node}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{layout.node}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE no process may lower its score
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{programs.runc}"
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{programs.network_plugins}"
    conf_dir = "{Files(layout.node).networks}"
"""


def network() -> dict[str, Any]:
    """The network of pods: a bridge. Pods reach one another and the node, and nothing else."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": POD_CIDR}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni-ipam",
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge | {"ipam": addresses}]}


def kubelet(layout: Layout, files: Files, cgroup: str) -> dict[str, Any]:
    """The configuration of the kubelet. The API server authenticates with a certificate, and the kubelet asks it who
    may do what.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,  # a kubelet from 1.35 on refuses cgroup v1 by default
        "cgroupDriver": "cgroupfs",  # containerd 1.6 cannot be asked for its own
        "cgroupRoot": f"/{cgroup}",
        "enforceNodeAllocatable": ["pods"],
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "address": ADDRESS,
        "port": KUBELET_PORT,
        "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "tlsCertFile": str(layout.pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(layout.pki / "kubelet.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "failSwapOn": False,
        # The disk is the machine's: what others keep there must not remove this node's images or evict its pods.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi"},
        "podLogsDir": str(layout.node / "logs"),
        "resolvConf": str(files.resolver),
        "clusterDomain": "cluster.local",
        "clusterDNS": ["10.96.0.10"],
        "volumePluginDir": str(layout.node / "plugins"),
        # Users' pods do not tolerate it. Tenon does, as does everything that belongs on a node for the cluster itself.
        "registerWithTaints": [{"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}],
    }


def kubelet_command(layout: Layout, files: Files, program: Path) -> list[str]:
    """The command line of the kubelet: what its configuration file cannot say."""
    labels = {
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": f"{REGION}a",
        "sandbox.tenon.sh/role": ROLE,
    }
    return [
        str(program),
        f"--config={files.kubelet}",
        f"--kubeconfig={layout.component_kubeconfig('kubelet')}",
        f"--root-dir={layout.node}/kubelet",
        f"--cert-dir={layout.node}/kubelet/pki",
        f"--hostname-override={NODE}",
        f"--node-ip={ADDRESS}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}",
    ]
