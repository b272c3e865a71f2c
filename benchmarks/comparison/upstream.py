"""Runs upstream Karpenter's own KWOK build on a sandbox.

Its provider creates Node objects itself. The sandbox's KWOK and its kubelets treat them as they treat instances' nodes:
KWOK makes a node with the two annotations Ready, and pods on it are admitted and started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from benchmarks.cluster import CONSOLIDATES, Object, until_ready
from benchmarks.running import Autoscaler
from sandbox import kubeconfig
from sandbox.cluster import Sandbox
from sandbox.go_tool import GoTool
from sandbox.kwok import KUBELET_ANNOTATION
from sandbox.ports import free_ports
from tenon.apis import labels

MODULE = "sigs.k8s.io/karpenter"
KARPENTER = GoTool(
    name="karpenter",
    source=Path(__file__).parent / "karpenter",
    code="tools.go",
    package=f"{MODULE}/kwok",
    duration="about four minutes on one core",
)
NAME = "karpenter"
"""Of the namespace and the ServiceAccount."""
CPU = "karpenter.kwok.sh/instance-cpu"


def manifests(module: Path) -> list[Path]:
    """Return the CRDs of Karpenter and of its KWOK provider, as the module ships them."""
    return sorted([*module.glob("pkg/apis/crds/*.yaml"), *module.glob("kwok/apis/crds/*.yaml")])


def identity() -> list[Object]:
    """Return the ServiceAccount that upstream runs as, so that the audit log tells its requests from others."""
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": NAME}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": NAME}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": role,
            "subjects": [subject],
        },
    ]


def node_class(delay: str = "") -> Object:
    """Return the KWOKNodeClass. Without a delay, its nodes register at once, as the sandbox's instances in a burst."""
    spec = {"spec": {"nodeRegistrationDelay": delay}} if delay else {}
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
        **spec,
    }


def node_pool(*, most_cpus: int) -> Object:
    """Return upstream's counterpart of `benchmarks.cluster.node_pool`, which also consolidates."""
    manifests: list[Object] = [
        {"key": labels.ARCH, "operator": "In", "values": ["amd64"]},
        {"key": labels.OS, "operator": "In", "values": ["linux"]},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.ON_DEMAND]},
        {"key": CPU, "operator": "Lt", "values": [str(most_cpus + 1)]},
    ]
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "metadata": {"annotations": {KUBELET_ANNOTATION: "ready"}},  # nodes get it from their NodeClaim
                "spec": {"nodeClassRef": reference, "requirements": manifests, "expireAfter": "Never"},
            },
            "disruption": CONSOLIDATES,
        },
    }


def environment(kubeconfig_file: Path, metrics: int, health: int) -> dict[str, str]:
    """Return upstream's settings. Everything that is not named here has upstream's default."""
    return {
        "KUBECONFIG": str(kubeconfig_file),
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "DISABLE_LEADER_ELECTION": "true",
        "SYSTEM_NAMESPACE": NAME,
        "KUBE_CLIENT_QPS": "200",
        "KUBE_CLIENT_BURST": "300",
    }


def install(sandbox: Sandbox, module: Path) -> Autoscaler:
    """Replace Tenon's CRDs by upstream's, and return upstream's process, not started yet.

    Raises:
        BuildError: upstream could not be built.
        KubectlError: the API server refused a manifest.
    """
    program = KARPENTER.ensure()
    _replace_definitions(sandbox, manifests(module))
    sandbox.apply(identity())
    sandbox.kubectl("wait", "--for=condition=Established", "customresourcedefinition", "--all", "--timeout=60s")
    token = sandbox.kubectl("create", "token", NAME, f"--namespace={NAME}", "--duration=24h").strip()
    file = sandbox.layout.root / f"{NAME}.kubeconfig"
    authority = (sandbox.layout.pki / "ca.crt").read_bytes()
    kubeconfig.with_token(file, sandbox.kubernetes_endpoint, authority, token, NAME)
    metrics, health = free_ports(2)
    return Autoscaler(
        "upstream Karpenter", (str(program),), sandbox.logs / f"{NAME}.log", environment(file, metrics, health)
    )


def _replace_definitions(sandbox: Sandbox, files: Sequence[Path]) -> None:
    """Replace the CRDs that exist, and create the others. A deletion of a new CRD may take minutes."""
    existing = sandbox.kubectl("get", "customresourcedefinition", "--output=name").split()
    for file in files:
        group, _, plural = file.stem.rpartition("_")
        exists = f"customresourcedefinition.apiextensions.k8s.io/{plural}.{group}" in existing
        sandbox.kubectl("replace" if exists else "create", f"--filename={file}")


async def prepare(sandbox: Sandbox, kube: Kube, pool: Object, *, delay: str = "") -> None:
    """Apply the KWOKNodeClass and the NodePool, and wait until the NodePool is ready.

    ``delay``: from the creation of a NodeClaim until its Node registers, such as ``10s``.

    Raises:
        TimeoutError: it is not ready in time.
    """
    await asyncio.to_thread(sandbox.apply, node_class(delay), pool)
    await until_ready(kube, NODEPOOLS, pool["metadata"]["name"])
