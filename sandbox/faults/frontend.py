"""Another frontend of the sandbox's temporal-server, which asks its clients for certificates or tokens.

Frontends remember nothing: each serves the same namespaces from the same database. So a sandbox stays as it is while a
test reaches it as strangers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from temporalio.service import TLSConfig

from sandbox.certificates import Authority, write_private
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.parent_death import dying_with_parent
from sandbox.ports import LOOPBACK, free_ports
from sandbox.temporal import namespaces, programs
from sandbox.temporal.configuration import FRONTEND
from sandbox.temporal.server import CONFIGURATION

INTERNAL = "internal-frontend"
"""Through which Temporal calls itself, without certificates and tokens."""
READY_SECONDS = 60.0


@dataclass
class Access:
    """Who may come in."""

    authority: Authority = field(default_factory=Authority)
    """Issues the frontend's certificate, and those of its clients."""
    client_certificates: bool = False
    """Clients need a certificate of the authority."""
    token_keys: Path | None = None
    """Clients need a token that one of these keys (a JSON Web Key Set) has signed. Temporal's default authorizer judges
    its permissions.
    """


@asynccontextmanager
async def frontend(sandbox: Sandbox, folder: Path, access: Access) -> AsyncIterator[str]:
    """Run a frontend whose files are in ``folder``. Yields its address when it serves.

    Raises:
        SandboxError: the sandbox's Temporal is the dev server, or the frontend did not start.
    """
    server = sandbox.layout.fresh_postgresql / CONFIGURATION
    if not server.exists():
        raise SandboxError("The sandbox has no temporal-server: start it with --temporal=postgresql.")
    port, *others = free_ports(4)
    document = yaml.safe_load(server.read_text())
    for service, grpc, membership in ((FRONTEND, port, others[0]), (INTERNAL, others[1], others[2])):
        document["services"][service] = {"rpc": {"grpcPort": grpc, "membershipPort": membership, "bindOnIP": LOOPBACK}}
    del document["publicClient"]
    document["global"] |= _global(folder, access)
    file = folder / "frontend.yaml"
    write_private(file, yaml.safe_dump(document).encode())
    command = [str(programs.ensure().server), "--config-file", str(file)]
    command += [] if access.token_keys else ["--allow-no-auth"]
    log = sandbox.layout.log(f"temporal-frontend-{port}")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *dying_with_parent(*command, "start", "--service", FRONTEND, "--service", INTERNAL),
            stdout=output,
            stderr=output,
        )
    ended = asyncio.create_task(process.wait())
    address = f"{LOOPBACK}:{port}"
    serving = asyncio.create_task(namespaces.until_served(address, tls=_client(access)))
    try:
        await asyncio.wait({ended, serving}, timeout=READY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done() or ended.done():
            raise SandboxError(f"The frontend did not start: see {log}.")
        yield address
    finally:
        serving.cancel()
        if process.returncode is None:
            process.kill()  # it remembers nothing, and a gentle end takes seconds
        await ended


def _client(access: Access) -> TLSConfig:
    pair = access.authority.client("sandbox")
    return TLSConfig(
        server_root_ca_cert=access.authority.certificate, client_cert=pair.certificate, client_private_key=pair.key
    )


def _global(folder: Path, access: Access) -> dict[str, Any]:
    """The part of the configuration that says who may come in."""
    authority = folder / "authority.crt"
    authority.write_bytes(access.authority.certificate)
    certificate, key = access.authority.server(["localhost"], [LOOPBACK]).write(folder, "frontend")
    server: dict[str, Any] = {"certFile": str(certificate), "keyFile": str(key)}
    if access.client_certificates:
        server |= {"requireClientAuth": True, "clientCaFiles": [str(authority)]}
    result: dict[str, Any] = {"tls": {FRONTEND: {"server": server, "client": {"rootCaFiles": [str(authority)]}}}}
    if access.token_keys is not None:
        result["authorization"] = {
            "jwtKeyProvider": {"keySourceURIs": [f"file://{access.token_keys}"]},
            "permissionsClaimName": "permissions",
            "authorizer": "default",
            "claimMapper": "default",
        }
    return result
