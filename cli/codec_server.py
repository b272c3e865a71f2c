"""``tenon codec-server``: decrypts payloads for Temporal's UI and for the ``temporal`` command.

Temporal's UI has no keys. It sends payloads to a codec server, which the browser must reach. Anyone who reaches the
server can read all payloads. So it does not run in the worker, whose ports other pods can reach. It listens on this
machine, and answers only pages of the named UI.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from aiohttp import web
from google.protobuf.json_format import MessageToJson, Parse, ParseError
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.converter import PayloadCodec

from cli.application import create_app, examples
from worker.runtime.temporal.encrypted_payloads import ENCRYPTION_CONFIG, PayloadCodecError
from worker.runtime.temporal.payload_codec import EncryptionCodec

app = create_app()

MAX_BODY = 8 * 1024 * 1024
"""Twice what Temporal accepts in one message, because JSON is longer."""
HEADERS = "content-type,x-namespace,authorization"
"""What Temporal's UI sends."""


@app.command(
    epilog=examples(
        "tenon codec-server --ui https://temporal.example.com --keys keys.yaml",
    )
)
def codec_server(
    ui: Annotated[
        str, typer.Option("--ui", metavar="ORIGIN", help="Address of Temporal's UI: https://temporal.example.com.")
    ],
    keys: Annotated[
        Path, typer.Option("--keys", metavar="FILE", envvar=ENCRYPTION_CONFIG, help="The file of the encryption keys.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8888,
) -> None:
    """Decrypt payloads for Temporal's UI, until Ctrl-C. Anyone who reaches this server can read payloads."""
    try:
        codec = EncryptionCodec(keys)
    except PayloadCodecError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    if not _is_origin(ui):
        raise typer.BadParameter(f"{ui!r} is not an origin, such as https://temporal.example.com", param_hint="--ui")
    try:
        web.run_app(application(codec, ui), host=host, port=port, access_log=None)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None) or 0  # negative if the host is unknown
        why = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or error
        typer.echo(f"error: {host} port {port} cannot be used ({why}): correct --host or --port.", err=True)
        raise typer.Exit(2) from None


def _is_origin(address: str) -> bool:
    """Whether the address has the form of what browsers send as the origin of a page, but for slashes at its end."""
    return re.fullmatch(r"https?://[^\s/?#@]+/*", address) is not None


def application(codec: PayloadCodec, ui: str) -> web.Application:
    """The server, with Temporal's protocol for codec servers. ``ui`` is the only origin whose pages may ask."""
    origin = ui.rstrip("/")

    @web.middleware
    async def cross_origin(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        asks = request.headers.get("Origin")
        if asks is not None and asks != origin:
            raise web.HTTPForbidden(text=f"Pages of {asks} may not use this server: start it with --ui {asks}.\n")
        answer: web.StreamResponse
        try:
            answer = web.Response() if request.method == "OPTIONS" else await handler(request)
        except web.HTTPException as refused:  # without the headers, the browser hides the reason
            answer = web.Response(status=refused.status, text=refused.text)
        answer.headers["Access-Control-Allow-Origin"] = origin
        answer.headers["Access-Control-Allow-Methods"] = "POST,OPTIONS"
        answer.headers["Access-Control-Allow-Headers"] = HEADERS
        return answer

    async def encode(request: web.Request) -> web.Response:
        app = await _payloads(request)
        return _answer(await codec.encode(app.payloads))

    async def decode(request: web.Request) -> web.Response:
        app = await _payloads(request)
        try:
            return _answer(await codec.decode(app.payloads))
        except PayloadCodecError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None

    app = web.Application(client_max_size=MAX_BODY, middlewares=[cross_origin])
    app.router.add_post("/encode", encode)
    app.router.add_post("/decode", decode)
    return app


async def _payloads(request: web.Request) -> Payloads:
    try:
        return Parse(await request.text(), Payloads())
    except (ParseError, UnicodeDecodeError, LookupError):  # the last: an unknown charset
        raise web.HTTPBadRequest(text="The body is not Payloads in JSON.\n") from None


def _answer(payloads: Sequence[Payload]) -> web.Response:
    return web.Response(text=MessageToJson(Payloads(payloads=payloads)), content_type="application/json")
