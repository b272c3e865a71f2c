"""Commands to a running supervisor: stop, start, freeze or thaw one component, over a socket in the state folder.

Request and response are one JSON object per line: ``{"do": "stop", "component": "temporal"}`` and
``{"error": "", "components": {...}}`` with the state of each component.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

ANSWER_SECONDS = 150.0
NAME_LIMIT = 100
"""Maximum length of a socket's path, in bytes, that all systems support."""


class Components(Protocol):
    """The operations that commands can request."""

    async def stop_component(self, name: str, *, kill: bool = False) -> None: ...

    async def start_component(self, name: str) -> None: ...

    def freeze_component(self, name: str) -> None: ...

    def thaw_component(self, name: str) -> None: ...

    def component_states(self) -> dict[str, str]: ...


async def serve_control(components: Components, path: Path) -> asyncio.Server:
    """Serve commands on a socket in a folder that only this user may open."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = {"error": await _execute(components, await reader.readline())}
            writer.write(json.dumps({**answer, "components": components.component_states()}).encode() + b"\n")
            await writer.drain()
        finally:
            writer.close()

    _forget(path)
    with _short(path) as name:
        return await asyncio.start_unix_server(serve, name)


def _forget(path: Path) -> None:
    """Remove the socket of an earlier supervisor that was killed."""
    path.unlink(missing_ok=True)


async def _execute(components: Components, line: bytes) -> str:
    """Execute one command. Returns an error message, or an empty string."""
    try:
        request = json.loads(line)
        name = str(request.get("component", ""))
        match request["do"]:
            case "stop":
                await components.stop_component(name)
            case "kill":
                await components.stop_component(name, kill=True)
            case "start":
                await components.start_component(name)
            case "freeze":
                components.freeze_component(name)
            case "thaw":
                components.thaw_component(name)
            case "status":
                pass
            case unknown:
                raise ValueError(f"the supervisor cannot {unknown}")
    except (ValueError, KeyError, ProcessLookupError) as error:
        return str(error)
    return ""


def order(path: Path, do: str, component: str = "") -> dict[str, str]:
    """Send a command and wait until it is done. Returns the state of each component after it.

    Raises:
        ValueError: the command failed.
        OSError: no supervisor listens.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_SECONDS)
        with _short(path) as name:
            connection.connect(name)
        connection.sendall(json.dumps({"do": do, "component": component}).encode() + b"\n")
        with connection.makefile() as answers:
            line = answers.readline()
    answer: dict[str, Any] = json.loads(line or '{"error": "the supervisor ended before it answered"}')
    if answer["error"]:
        raise ValueError(answer["error"])
    states: dict[str, str] = answer["components"]
    return states


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """The path, or a shorter alias through its open folder if it is too long for a socket (Linux only)."""
    if len(os.fsencode(path)) <= NAME_LIMIT:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
