"""Writes self-contained kubeconfig files, which can be copied or given to any Kubernetes client."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from sandbox.certificates import Pair, write_private
from sandbox.layout import CLUSTER_NAME


def with_certificate(path: Path, server: str, authority: bytes, pair: Pair, namespace: str = "default") -> None:
    """Write a kubeconfig that authenticates with a client certificate."""
    user = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    _write(path, server, authority, user, namespace)


def with_token(path: Path, server: str, authority: bytes, token: str, namespace: str) -> None:
    """Write a kubeconfig that authenticates with a ServiceAccount's token."""
    _write(path, server, authority, {"token": token}, namespace)


def _write(path: Path, server: str, authority: bytes, user: dict[str, Any], namespace: str) -> None:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER_NAME, "cluster": cluster}],
        "users": [{"name": path.stem, "user": user}],
        "contexts": [
            {
                "name": CLUSTER_NAME,
                "context": {"cluster": CLUSTER_NAME, "user": path.stem, "namespace": namespace},
            }
        ],
        "current-context": CLUSTER_NAME,
    }
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
