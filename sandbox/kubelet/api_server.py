"""What the API server needs for a real node: a way to it, and a kubelet's rights for the node alone."""

from __future__ import annotations

import yaml

from sandbox.layout import Layout
from sandbox.ports import LOOPBACK


def node_flags(layout: Layout) -> tuple[str, ...]:
    """The flags."""
    return (
        "--enable-admission-plugins=NodeRestriction",
        f"--egress-selector-config-file={layout.egress}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={layout.pki / 'ca.crt'}",
        f"--kubelet-client-certificate={layout.pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={layout.pki / 'kubelet-client.key'}",
    )


def egress(layout: Layout, proxy: int) -> str:
    """The file that sends the API server's connections to kubelets, webhooks and Services to the node's proxy."""
    tls = {
        "caBundle": str(layout.pki / "ca.crt"),
        "clientCert": str(layout.pki / "kubelet-client.crt"),
        "clientKey": str(layout.pki / "kubelet-client.key"),
    }
    transport = {"tcp": {"url": f"https://{LOOPBACK}:{proxy}", "tlsConfig": tls}}
    cluster = {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
    return yaml.safe_dump(
        {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [cluster],
        }
    )
