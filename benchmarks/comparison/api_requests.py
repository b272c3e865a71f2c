"""Counts the API server's requests by client, verb and resource, from its audit log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.comparison.upstream import NAME as UPSTREAM
from sandbox.layout import NAMESPACE, SERVICE_ACCOUNT

CLIENTS = {
    f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}": "autoscaler",
    f"system:serviceaccount:{UPSTREAM}:{UPSTREAM}": "autoscaler",
    "system:kube-controller-manager": "kube-controller-manager",
    "system:kube-scheduler": "kube-scheduler",
    "system:apiserver": "kube-apiserver",
    "sandbox:kwok": "kwok",
    "sandbox:ec2": "ec2 and kubelets",
    "sandbox-admin": "benchmark",
}
CONTROLLERS = "system:serviceaccount:kube-system:"
"""Each controller of kube-controller-manager has a ServiceAccount of its own."""


class Request(NamedTuple):
    """Requests that are counted together."""

    client: str
    verb: str
    resource: str


def read_requests(log: Path, between: tuple[float, float]) -> Counter[Request]:
    """Count the requests of an audit log. Its last line may not be complete yet."""
    with log.open() as lines:
        return count_requests((line for line in lines if line.endswith("\n")), between)


def has_watch(log: Path, client: str, resource: str) -> bool:
    """Whether a client has begun to watch a resource, as the audit log says."""
    watch = Request(client, "watch", resource)
    return read_requests(log, (0.0, float("inf")))[watch] > 0


def count_requests(lines: Iterable[str], between: tuple[float, float]) -> Counter[Request]:
    """Count the requests that the API server received in this time. A watch counts once, when it begins.

    Args:
        lines: the audit log.
        between: begin and end, in seconds since 1970.
    """
    first, last = between
    counts: Counter[Request] = Counter()
    for line in lines:
        event = json.loads(line)
        at = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
        if event["stage"] != _stage(event["verb"]) or not first <= at <= last:
            continue
        counts[Request(_client(event["user"]["username"]), event["verb"], _resource(event))] += 1
    return counts


def _stage(verb: str) -> str:
    return "ResponseStarted" if verb == "watch" else "ResponseComplete"


def _client(user: str) -> str:
    return "kube-controller-manager" if user.startswith(CONTROLLERS) else CLIENTS.get(user, user)


def _resource(event: dict[str, dict[str, str]]) -> str:
    """Return the resource with its subresource, or the path of a request for no resource."""
    reference = event.get("objectRef") or {}
    if not reference.get("resource"):
        return str(event.get("requestURI", "")).partition("?")[0]
    return "/".join(part for part in (reference["resource"], reference.get("subresource")) if part)
