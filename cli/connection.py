"""Connects a command to the API server of its cluster."""

from __future__ import annotations

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES, PODS
from cli.context import resolve_if_known

OF_EVERY_CLUSTER = (NODES.plural, PODS.plural)
"""Resources that every API server serves. One that does not is another server: a wrong path, or a proxy."""


async def connected() -> Kube:
    """Return a client of the API server that the kubeconfig or the sandbox running in this folder names.

    Raises:
        ConfigError: the kubeconfig names none.
    """
    if (context := resolve_if_known(None)) is not None:
        context.apply()
    return await Kube.connect()


def not_kubernetes(host: str, plural: str) -> str:
    """Return that a server does not serve a resource of every cluster, as a sentence without its period."""
    return f"{host} serves no {plural}, so it is no Kubernetes API server: correct its address in the kubeconfig"
