"""The client of ``tenon shadow``: it sends no write, whatever its user may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from activities.kubernetes.errors import ApiUnreachableError, WriteStoppedError
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODES, PODS
from cli.shadowing.observed import READ_ONLY, read_only_client
from sandbox.ports import free_ports

pytestmark = pytest.mark.integration

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: here, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: me, user: {{token: abc}}}}]
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
"""


async def test_every_write_is_refused_before_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.format(port=free_ports(1)[0]))
    monkeypatch.setenv("KUBECONFIG", str(file))
    client = await read_only_client()
    try:
        for resource in (PODS, NODES, NODECLAIMS, NODEPOOLS):
            namespace = "default" if resource.namespaced else ""
            body = {"metadata": {"name": "a"}}
            with pytest.raises(WriteStoppedError, match=READ_ONLY):
                await client.create(resource, body, namespace)
            with pytest.raises(WriteStoppedError, match=READ_ONLY):
                await client.patch(resource, "a", body, namespace=namespace)
            with pytest.raises(WriteStoppedError, match=READ_ONLY):
                await client.delete(resource, "a", namespace=namespace)
        with pytest.raises(WriteStoppedError, match=READ_ONLY):
            await client.evict("default", "a")
        with pytest.raises(ApiUnreachableError) as unreachable:
            await client.list(NODES)
        assert not isinstance(unreachable.value, WriteStoppedError)
    finally:
        await client.close()
