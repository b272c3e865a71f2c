"""Requests to the API server are counted and timed as Karpenter's client does it (MET-61)."""

from __future__ import annotations

import pytest

from activities.kubernetes.transport import request_labels


@pytest.mark.parametrize(
    ("method", "path", "labels"),
    [
        ("GET", "/api/v1/nodes", ("LIST", "", "v1", "nodes", "")),
        ("GET", "/api/v1/namespaces/web/pods/a", ("GET", "", "v1", "pods", "")),
        ("POST", "/api/v1/namespaces/web/pods/a/eviction", ("CREATE", "", "v1", "pods", "eviction")),
        ("GET", "/api/v1/namespaces/web", ("GET", "", "v1", "namespaces", "")),
        ("PATCH", "/apis/karpenter.sh/v1/nodeclaims/a/status", ("PATCH", "karpenter.sh", "v1", "nodeclaims", "status")),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/t/leases/l",
            ("UPDATE", "coordination.k8s.io", "v1", "leases", ""),
        ),
        ("GET", "/version", ("LIST", "", "", "", "")),
    ],
)
def test_met61_a_request_is_named_by_verb_and_kind(method: str, path: str, labels: tuple[str, ...]) -> None:
    assert request_labels(method, path, is_watch=False) == labels


def test_met61_a_watch_is_no_list() -> None:
    assert request_labels("GET", "/api/v1/pods", is_watch=True)[0] == "WATCH"
