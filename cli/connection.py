"""Connects a command to the API server of its cluster."""

from __future__ import annotations

from activities.kubernetes.client import Kube
from cli.context import resolve_if_known


async def connected() -> Kube:
    """Return a client of the API server that the kubeconfig or the sandbox running in this folder names.

    Raises:
        ConfigError: the kubeconfig names none.
    """
    if (context := resolve_if_known(None)) is not None:
        context.apply()
    return await Kube.connect()
