"""Installs what a new API server needs before Tenon can run in the cluster."""

from __future__ import annotations

from pathlib import Path

from sandbox import kubeconfig
from sandbox.kubectl import apply, kubectl
from sandbox.kwok import SYSTEM_NODE
from sandbox.layout import NAMESPACE, SERVICE_ACCOUNT, Layout

SYSTEM = Path(__file__).with_name("system.yaml")
DEPLOY = Path(__file__).parent.parent / "deploy"
TOKEN_LIFETIME = "8760h"
"""The same lifetime as the certificates."""


def deploy_manifests(deploy: Path = DEPLOY) -> list[Path]:
    """Tenon's CRDs and RBAC manifests, as users install them."""
    rights = deploy / "rbac.yaml"
    return [*sorted((deploy / "crds").glob("*.yaml")), *([rights] if rights.exists() else [])]


def populate(layout: Layout, server: str, *, tenon: bool = True) -> None:
    """Install the system node. With ``tenon``, install Tenon's manifests too, and write Tenon's kubeconfig.

    The API server serves Tenon's kinds then.

    Without ``tenon`` nothing of Tenon is in the cluster, so that its chart can be installed as in any other cluster.

    Raises:
        KubectlError: kubectl failed.
    """
    admin = layout.kubeconfig
    if not tenon:
        apply(admin, SYSTEM)
        return
    apply(admin, SYSTEM, *deploy_manifests())
    if any((DEPLOY / "crds").glob("*.yaml")):
        kubectl(admin, "wait", "--for=condition=Established", "customresourcedefinition", "--all", "--timeout=60s")
    write_worker_kubeconfig(layout, server)


def write_worker_kubeconfig(layout: Layout, server: str) -> None:
    """Write the kubeconfig of Tenon's ServiceAccount, which must exist.

    Raises:
        KubectlError: kubectl failed.
    """
    command = ("create", "token", SERVICE_ACCOUNT, f"--namespace={NAMESPACE}", f"--duration={TOKEN_LIFETIME}")
    token = kubectl(layout.kubeconfig, *command).strip()
    authority = (layout.pki / "ca.crt").read_bytes()
    kubeconfig.with_token(layout.worker_kubeconfig, server, authority, token, NAMESPACE)


def wait_until_ready(layout: Layout) -> None:
    """Wait until pods can be created.

    Raises:
        KubectlError: kubectl failed, or the wait timed out.
    """
    admin = layout.kubeconfig
    kubectl(admin, "wait", "--for=create", "serviceaccount/default", "--namespace=default", "--timeout=60s")
    kubectl(admin, "wait", "--for=condition=Ready", f"node/{SYSTEM_NODE}", "--timeout=60s")
