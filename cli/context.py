"""Which cluster a command means: named by option or environment, else the sandbox that runs in this folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


class ContextError(Exception):
    """No cluster is named, in one sentence."""


@dataclass(frozen=True)
class Context:
    """A cluster and what must stand in the environment to reach it."""

    cluster: str
    environment: dict[str, str] = field(default_factory=dict)

    def apply(self) -> None:
        """Set what is not set yet; an operator's own environment wins."""
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)


def resolve(cluster: str | None) -> Context:
    """The cluster that a command means.

    Raises:
        ContextError: none is named, and no sandbox runs here.
    """
    sandbox = _running_sandbox()
    if cluster and (sandbox is None or sandbox.cluster != cluster):
        return Context(cluster)
    if sandbox is not None:
        return sandbox
    raise ContextError("Which cluster? Name it with --cluster or CLUSTER_NAME; no sandbox runs in this folder.")


def _running_sandbox() -> Context | None:
    try:
        from sandbox.cluster import Sandbox
    except ImportError:  # the sandbox's own dependencies are not part of an installation
        return None
    found = Sandbox.find()
    if found is None:
        return None
    wanted = ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE")
    environment = {name: value for name, value in found.worker_env().items() if name in wanted}
    return Context(found.cluster_name, environment | {"KUBECONFIG": str(found.kubeconfig)})
