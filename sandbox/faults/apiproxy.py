"""A proxy in front of the sandbox's API server that stalls, holds and fails requests of clients with its kubeconfig.

``with ApiProxy.start(sandbox) as proxy:`` and ``sandbox.worker_env(replica=1, kubeconfig=proxy.kubeconfig)``. Each
proxy is a separate process (``python -m sandbox.faults.apiproxy``) that ends with the process that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

import yaml
from aiohttp import web

from sandbox.certificates import write_private
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.faults.proxy_rules import ProxyRules
from sandbox.faults.proxy_server import ADMIN, ApiServerProxy
from sandbox.ports import LOOPBACK

TIMEOUT = 30.0
SHUTDOWN_SECONDS = 0.5
"""Seconds that running requests may take to finish when the proxy is stopped."""


class ApiProxy:
    """A running proxy, controlled through its admin API."""

    def __init__(self, process: subprocess.Popen[str], endpoint: str, kubeconfig: Path, authority: Path) -> None:
        self.endpoint = endpoint
        """The API server's address through the proxy."""
        self.kubeconfig = kubeconfig
        """A worker's kubeconfig through the proxy, with the same ServiceAccount token."""
        self._process = process
        self._trust = ssl.create_default_context(cafile=str(authority))

    @classmethod
    def start(cls, sandbox: Sandbox) -> ApiProxy:
        """Start a proxy in front of the sandbox's API server. Several may run at a time.

        Raises:
            SandboxError: the proxy did not start.
        """
        pki = sandbox.layout.pki
        command = [sys.executable, "-m", "sandbox.faults.apiproxy", f"--server={sandbox.kubernetes_endpoint}"]
        root = Path(__file__).parent.parent.parent
        with sandbox.layout.log("apiproxy").open("ab") as log:
            process = subprocess.Popen(
                [*command, f"--pki={pki}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                cwd=root,
            )
        assert process.stdout is not None
        endpoint = process.stdout.readline().strip()
        if not endpoint:
            process.wait()
            raise SandboxError(f"The API server's proxy did not start: see {sandbox.layout.log('apiproxy')}.")
        document = yaml.safe_load(sandbox.worker_kubeconfig.read_text())
        document["clusters"][0]["cluster"]["server"] = endpoint
        kubeconfig = sandbox.layout.root / f"proxy-{process.pid}.kubeconfig"
        write_private(kubeconfig, yaml.safe_dump(document, sort_keys=False).encode())
        return cls(process, endpoint, kubeconfig, pki / "ca.crt")

    def stall_watches(self, plural: str = "") -> None:
        """Withhold the data of all watches, or of one resource's. Existing and new watches stay open until
        `release`.
        """
        self._call("POST", "stall", {"plural": plural})

    def delay_watches(self, plural: str, seconds: float) -> None:
        """Deliver what watches of this resource send so many seconds late, in order. 0 ends the delay."""
        self._call("POST", "delay", {"plural": plural, "seconds": seconds})

    def hold(self, method: str, path: str, *, after_effect: bool = False, count: int | None = 1) -> None:
        """Make the next ``count`` requests wait for `release`, either before they reach the server or after they took
        effect.

        ``path`` is a regular expression that is searched for. ``method`` is WATCH for watches, or empty for all
        methods.
        """
        self._call("POST", "hold", {"method": method, "path": path, "after_effect": after_effect, "count": count})

    def held(self) -> int:
        """The number of requests that are waiting now."""
        return int(self._call("GET", "held")["held"])

    def release(self) -> None:
        """Release everything that is held or stalled, and end all holds and stalls."""
        self._call("POST", "release")

    def fault(
        self,
        method: str,
        path: str,
        *,
        status: int,
        reason: str = "",
        message: str = "",
        count: int | None = 1,
        after_effect: bool = False,
        latency_seconds: float = 0.0,
    ) -> None:
        """Answer the next ``count`` requests (None: until cleared) with an error. A status of 0 only delays them."""
        fields = {"method": method, "path": path, "status": status, "reason": reason, "message": message}
        more = {"count": count, "after_effect": after_effect, "latency_seconds": latency_seconds}
        self._call("POST", "fault", fields | more)

    def clear(self) -> None:
        """End faults, holds, stalls and delays."""
        self._call("POST", "clear")

    def calls(self, method: str = "", path: str = "") -> list[dict[str, Any]]:
        """The requests received, oldest first: method, path, query, status (None: no answer yet), user_agent."""
        calls: list[dict[str, Any]] = self._call("GET", "calls", query={"method": method, "path": path})["calls"]
        return calls

    def clear_calls(self) -> None:
        """Clear the record of requests."""
        self._call("DELETE", "calls")

    def rules(self) -> dict[str, Any]:
        """The active rules: held, stalled, holds, faults."""
        return self._call("GET", "rules")

    def close(self) -> None:
        """End the proxy and every connection through it."""
        self._process.terminate()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self.kubeconfig.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(
        self, method: str, name: str, body: dict[str, Any] | None = None, query: dict[str, str] | None = None
    ) -> dict[str, Any]:
        url = f"{self.endpoint}{ADMIN}{name}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=self._trust) as answer:
                parsed: dict[str, Any] = json.load(answer)
                return parsed
        except urllib.error.HTTPError as error:
            raise ValueError(f"The proxy refused {method} {name}: {error.read().decode()}") from error


async def serve(server: str, pki: Path) -> None:
    """Serve on a free loopback port, print the address, and end when standard input closes."""
    identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    identity.load_cert_chain(pki / "server.crt", pki / "server.key")
    trust = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    proxy = ApiServerProxy(server, trust, ProxyRules())
    runner = web.AppRunner(
        proxy.application(), handler_cancellation=True, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=identity)
    await site.start()
    print(f"https://{LOOPBACK}:{runner.addresses[0][1]}", flush=True)
    closed = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, lambda: None if os.read(0, 1) else closed.set())
    await closed.wait()
    await runner.cleanup()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.faults.apiproxy", description="Serve one proxy.")
    parser.add_argument("--server", required=True)
    parser.add_argument("--pki", required=True, type=Path)
    options = parser.parse_args()
    asyncio.run(serve(options.server, options.pki))
    return 0


if __name__ == "__main__":
    sys.exit(main())
