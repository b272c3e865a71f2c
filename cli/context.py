"""Selects the cluster of a command: from an option or the environment, else the sandbox running in this folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tenon.errors import TenonError

if TYPE_CHECKING:
    from sandbox.cluster import Sandbox


class ContextError(TenonError):
    """No cluster is named. The message is one sentence."""


@dataclass(frozen=True)
class Context:
    """A cluster and the environment variables needed to reach it."""

    cluster: str
    environment: dict[str, str] = field(default_factory=dict)

    def apply(self) -> None:
        """Set the variables that are not set yet. The operator's own environment takes precedence."""
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)

    def apply_aws(self) -> None:
        """Set the variables for AWS that are not set: the addresses and credentials of a sandbox."""
        for variable, value in self.environment.items():
            if variable.startswith("AWS_"):
                os.environ.setdefault(variable, value)


def resolve(cluster: str | None) -> Context:
    """Return the cluster that a command applies to.

    Raises:
        ContextError: no cluster is named, and no sandbox runs in this folder.
    """
    sandbox = _running_sandbox()
    if cluster and (sandbox is None or sandbox.cluster != cluster):
        return Context(cluster)
    if sandbox is not None:
        return sandbox
    raise ContextError("Which cluster? Name it with --cluster or CLUSTER_NAME; no sandbox runs in this folder.")


def resolve_if_known(cluster: str | None) -> Context | None:
    """Return the cluster that a command applies to; None for a command that does without if none is named."""
    try:
        return resolve(cluster)
    except ContextError:
        return None


def worker_of_sandbox() -> Context | None:
    """Return the cluster of the sandbox running in this folder, with its worker's environment; None without one."""
    sandbox = _found()
    return Context(sandbox.cluster_name, sandbox.worker_env()) if sandbox is not None else None


def _running_sandbox() -> Context | None:
    sandbox = _found()
    if sandbox is None:
        return None
    variables = ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE")
    environment = {name: value for name, value in sandbox.worker_env().items() if name in variables}
    if sandbox.temporal_ui:
        environment["TEMPORAL_UI_URL"] = sandbox.temporal_ui
    environment["KUBECONFIG"] = str(sandbox.kubeconfig)
    if sandbox.record.exists():  # it begins with the first entry of a worker
        environment["TENON_RECORD"] = str(sandbox.record)
    return Context(sandbox.cluster_name, environment)


def _found() -> Sandbox | None:
    try:
        from sandbox.cluster import Sandbox
    except ImportError:  # the sandbox is an optional extra
        return None
    return Sandbox.find()
