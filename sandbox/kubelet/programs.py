"""The programs of the node: the kubelet from the modules of the control plane, pause, and Debian's containerd and runc.

The kubelet is a build of its own, so that a control plane that is already built stays valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sandbox import build
from sandbox.go_tool import GoTool
from sandbox.kubelet import packages
from sandbox.progress import OnProgress, silent

KUBELET = build.Programs(
    subject="the kubelet",
    cache="kubelet",
    packages=("k8s.io/kubernetes/cmd/kubelet",),
    names=("kubelet",),
    cold_cpu_minutes=0.6,  # after the control plane, which has most of its packages
)
PAUSE = GoTool(
    name="pause",
    source=Path(__file__).parent / "pause",
    code="main.go",
    package=".",
    duration="a few seconds",
)


@dataclass(frozen=True)
class NodePrograms:
    """Where the node's programs are."""

    kubelet: Path
    pause: Path
    packages: Path
    """The folder with the unpacked Debian packages."""

    @property
    def containerd(self) -> Path:
        return self.packages / "usr/bin/containerd"

    @property
    def ctr(self) -> Path:
        return self.packages / "usr/bin/ctr"

    @property
    def runc(self) -> Path:
        return self.packages / "usr/sbin/runc"

    @property
    def network_plugins(self) -> Path:
        return self.packages / "usr/lib/cni"


def ensure(on_progress: OnProgress = silent) -> NodePrograms:
    """Return the programs. Builds and downloads what is missing.

    Raises:
        BuildError: a build or a download failed.
        MissingToolError: there is no suitable Go.
    """
    folder = build.ensure(on_progress, KUBELET)
    return NodePrograms(folder / "kubelet", PAUSE.ensure(on_progress), packages.ensure(on_progress))
