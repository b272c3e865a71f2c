"""Certificates and kubeconfigs that are renewed while a worker runs: a server that asks for them by real TLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from kubernetes.aio.config import incluster_config

from activities.kubernetes import access
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiUnreachableError
from sandbox import kubeconfig
from sandbox.certificates import Authority
from sandbox.ports import free_ports

pytestmark = pytest.mark.integration


class Server:
    """An API server that says which token it was shown, and that trusts one authority at a time."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.url = f"https://127.0.0.1:{self.port}"
        self._folder = folder

    @asynccontextmanager
    async def serving(self, authority: Authority) -> AsyncIterator[None]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.certificate.decode())
        context.load_cert_chain(*authority.server(["localhost"], ["127.0.0.1"]).write(self._folder, "server"))
        context.verify_mode = ssl.CERT_REQUIRED if self.asks_for_certificates else ssl.CERT_NONE

        async def answer(request: web.Request) -> web.Response:
            return web.json_response({"token": request.headers.get("Authorization", "")})

        app = web.Application()
        app.router.add_get("/version", answer)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=context).start()
        try:
            yield
        finally:
            await runner.cleanup()

    asks_for_certificates = True


def write_files(folder: Path, server: Server, authority: Authority) -> None:
    """A kubeconfig that names files, and the files."""
    (folder / "ca.crt").write_bytes(authority.certificate)
    certificate, key = authority.client("worker").write(folder, "worker")
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority": str(folder / "ca.crt")}}],
        "users": [{"name": "u", "user": {"client-certificate": str(certificate), "client-key": str(key)}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(document))


def write_inline(folder: Path, server: Server, authority: Authority) -> None:
    """A kubeconfig with certificates in it."""
    kubeconfig.with_certificate(folder / "kubeconfig", server.url, authority.certificate, authority.client("worker"))


def look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "CHECK_SECONDS", 0.0)


@pytest.mark.parametrize("write", [write_files, write_inline])
async def test_renewed_certificates_are_shown_and_trusted_without_a_restart(
    write: Callable[[Path, Server, Authority], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_always(monkeypatch)
    server, old, new = Server(tmp_path), Authority(), Authority()
    write(tmp_path, server, old)
    kube = await Kube.connect(str(tmp_path / "kubeconfig"))
    async with server.serving(old):
        await kube.request("GET", "/version")
    async with server.serving(new):
        with pytest.raises(ApiUnreachableError):
            await kube.request("GET", "/version")
        write(tmp_path, server, new)
        await kube.request("GET", "/version")
    await kube.close()


async def test_files_that_cannot_be_used_leave_the_old_ones_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are replaced one by one, and a look may come in between."""
    look_always(monkeypatch)
    server, authority = Server(tmp_path), Authority()
    write_files(tmp_path, server, authority)
    kube = await Kube.connect(str(tmp_path / "kubeconfig"))
    async with server.serving(authority):
        key = (tmp_path / "worker.key").read_bytes()
        for broken in (b"", b"no key", authority.client("another").key):
            (tmp_path / "worker.key").write_bytes(broken)
            await kube.request("GET", "/version")
        (tmp_path / "worker.key").write_bytes(key)
        await kube.request("GET", "/version")
    await kube.close()
    assert caplog.text.count("the worker keeps the old ones") == 3


async def test_the_authority_and_the_token_of_a_service_account_are_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_always(monkeypatch)
    server, old, new = Server(tmp_path), Authority(), Authority()
    server.asks_for_certificates = False
    authority, token = tmp_path / "ca.crt", tmp_path / "token"
    for name, value in (("HOST", "127.0.0.1"), ("PORT", str(server.port))):
        monkeypatch.setenv(f"KUBERNETES_SERVICE_{name}", value)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    authority.write_bytes(old.certificate)
    token.write_text("first")
    kube = await Kube.connect()
    async with server.serving(old):
        assert b"first" in await kube.request("GET", "/version")
    authority.write_bytes(new.certificate)
    token.write_text("second")
    async with server.serving(new):
        assert b"second" in await kube.request("GET", "/version")
    await kube.close()
