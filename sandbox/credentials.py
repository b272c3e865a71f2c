"""Creates all identities of a new cluster: certificates, keys, and the kubeconfig of each component."""

from __future__ import annotations

from sandbox import kubelet
from sandbox.certificates import Authority, private_key_pem, write_private
from sandbox.kubeconfig import with_certificate
from sandbox.layout import SERVICE_IP, Layout
from sandbox.metrics import SERVICE_NAME
from sandbox.ports import LOOPBACK

ADMINISTRATORS = "system:masters"

COMPONENTS: dict[str, tuple[str, ...]] = {
    "kube-controller-manager": ("system:kube-controller-manager",),
    "kube-scheduler": ("system:kube-scheduler",),
    "kwok": ("sandbox:kwok", ADMINISTRATORS),
    "ec2": ("sandbox:ec2", ADMINISTRATORS),
    "metrics": ("sandbox:metrics", ADMINISTRATORS),
}
"""User and groups of each component. The two of Kubernetes have their usual permissions; the sandbox's own have all."""


def create(layout: Layout, server: str) -> None:
    """Write the keys and certificates for an API server at ``server``, and the kubeconfigs of its clients."""
    authority = Authority()
    write_private(layout.pki / "ca.crt", authority.certificate)
    _, signing_key = private_key_pem()
    write_private(layout.pki / "service-accounts.key", signing_key)
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", SERVICE_NAME]
    authority.server(names, [LOOPBACK, SERVICE_IP]).write(layout.pki, "server")
    for name, (user, *groups) in COMPONENTS.items():
        pair = authority.client(user, *groups)
        with_certificate(layout.component_kubeconfig(name), server, authority.certificate, pair)
    _create_for_node(layout, authority)
    administrator = authority.client("sandbox-admin", ADMINISTRATORS)
    with_certificate(layout.kubeconfig, server, authority.certificate, administrator)


def _create_for_node(layout: Layout, authority: Authority) -> None:
    """Write the identities of the real node and of the API server towards it. Each may do only what the other needs."""
    node = authority.client(kubelet.USER, kubelet.GROUP)
    server = f"https://{SERVICE_IP}"
    with_certificate(layout.component_kubeconfig(kubelet.COMPONENT), server, authority.certificate, node)
    authority.server([kubelet.NODE], [kubelet.ADDRESS, LOOPBACK]).write(layout.pki, kubelet.COMPONENT)
    authority.client("kube-apiserver-kubelet-client", ADMINISTRATORS).write(layout.pki, "kubelet-client")
