"""The right to restart Deployments, which an operator gives Tenon for pods that start their successor first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.cluster import Sandbox

NAME = "tenon-restarts-deployments"


@contextmanager
def may_restart(sandbox: Sandbox) -> Iterator[None]:
    """Give Tenon the right, and take it back."""
    rule = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": NAME}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    subject = {"kind": "ServiceAccount", "name": "tenon", "namespace": "tenon"}
    sandbox.apply(
        {**kind, "kind": "ClusterRole", "rules": [rule]},
        {**kind, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    )
    try:
        yield
    finally:
        sandbox.kubectl("delete", "clusterrole,clusterrolebinding", NAME)
