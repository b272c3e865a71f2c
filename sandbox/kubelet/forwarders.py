"""Connections between the machine's loopback and the node's network, neither of which can reach the other."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from sandbox.kubectl import KubectlError
from sandbox.kubelet import COMPONENT, services
from sandbox.kubelet.namespaces import Network
from sandbox.layout import Layout
from sandbox.ports import LOOPBACK

CHUNK = 65536

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Dial = Callable[[], Awaitable[tuple[Reader, Writer]]]


async def to_machine(network: Network, address: str, port: int, target: int) -> asyncio.Server:
    """Forward from ``address`` in the node's network to a port on the machine's loopback."""

    async def serve(reader: Reader, writer: Writer) -> None:
        await _joined(reader, writer, lambda: asyncio.open_connection(LOOPBACK, target))

    listening = network.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((address, port))
    return await asyncio.start_server(serve, sock=listening)


async def to_node(network: Network, port: int, layout: Layout) -> asyncio.Server:
    """Serve CONNECT on a port of the machine's loopback, so that the API server reaches the node and its pods.

    The API server sends all connections to its cluster here, so those to the machine's own loopback too. Others may not
    use it: a client needs a certificate of the sandbox.
    """
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(layout.pki / "ca.crt"))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(layout.pki / f"{COMPONENT}.crt", layout.pki / f"{COMPONENT}.key")

    async def serve(reader: Reader, writer: Writer) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            host, target = connect_target(head)
        except (ValueError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()
            return
        accepted = b"HTTP/1.1 200 OK\r\n\r\n"
        await _joined(reader, writer, lambda: _dial(network, layout.kubeconfig, host, target), accepted)

    return await asyncio.start_server(serve, LOOPBACK, port, ssl=tls)


def connect_target(head: str) -> tuple[str, int]:
    """The host and port of a CONNECT request.

    Raises:
        ValueError: it is another request.
    """
    method, target, _ = head.split("\r\n", 1)[0].split(" ")
    host, _, port = target.rpartition(":")
    if method != "CONNECT":
        raise ValueError(f"{method} is not CONNECT")
    return host.strip("[]"), int(port)


async def _dial(network: Network, kubeconfig: Path, host: str, port: int) -> tuple[Reader, Writer]:
    if host == "localhost" or ipaddress.ip_address(host).is_loopback:
        return await asyncio.open_connection(host, port)
    if services.is_service(host):
        host, port = await asyncio.to_thread(services.find, kubeconfig, host, port)
    dialing = network.socket()
    try:
        await asyncio.get_running_loop().sock_connect(dialing, (host, port))
        return await asyncio.open_connection(sock=dialing)
    except BaseException:
        dialing.close()
        raise


async def _joined(reader: Reader, writer: Writer, dial: Dial, accepted: bytes = b"") -> None:
    """Dial, and pass on what either side sends until both have ended. ``accepted`` is for the caller, once dialed."""
    try:
        their_reader, their_writer = await dial()
    except (OSError, ValueError, KubectlError) as error:
        print(error, file=sys.stderr, flush=True)
        writer.close()
        return
    writer.write(accepted)
    await asyncio.gather(_pump(reader, their_writer), _pump(their_reader, writer))
    writer.close()
    their_writer.close()


async def _pump(reader: Reader, writer: Writer) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()  # TLS has no end of one direction alone
        return
    writer.transport.abort()  # the other side must see that the connection broke
