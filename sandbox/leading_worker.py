"""Says which worker leads in a sandbox: the demo's, one that somebody started, or one in a pod.

The Lease shows all of them. A process ID shows only the worker that the demo started.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sandbox.kubectl import KubectlError, kubectl
from sandbox.tools import MissingToolError

LEASE = "karpenter-leader-election"
"""The default of LEADER_ELECTION_NAME."""
ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LeadingWorker:
    """The worker that leads."""

    holder: str = ""
    """Empty if none does, or if that is not known."""
    unknown: str = ""
    """Why it is not known."""

    def __str__(self) -> str:
        """A sentence for people."""
        if self.unknown:
            return f"whether a worker leads is not known: {self.unknown}"
        if self.holder:
            return f"worker {self.holder} leads"
        return "no worker leads, so pods that fit on no node stay Pending: `tenon sandbox worker start` starts one"


def read_leader(kubeconfig: Path, now: datetime) -> LeadingWorker:
    """Ask the API server of a sandbox."""
    arguments = ("get", "leases.coordination.k8s.io", "-A", f"--field-selector=metadata.name={LEASE}", "-o", "json")
    try:
        text = kubectl(kubeconfig, *arguments, f"--request-timeout={ANSWER_SECONDS:g}s", timeout=2 * ANSWER_SECONDS)
        return LeadingWorker(holder_of(json.loads(text).get("items") or (), now))
    except (KubectlError, MissingToolError, ValueError) as error:
        return LeadingWorker(unknown=str(error).partition("\n")[0])


def holder_of(leases: Iterable[Mapping[str, Any]], now: datetime) -> str:
    """Return the holder of the Lease that was renewed in time; empty if there is none."""
    for lease in leases:
        spec = lease.get("spec") or {}
        holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
        lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
        if holder and renewed and now < datetime.fromisoformat(renewed) + lasts:
            return str(holder)
    return ""
