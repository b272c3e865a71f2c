"""``tenon playground``: a page on this machine that plans for manifests, and shows what a change of them changes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import webbrowser
from collections.abc import Sequence
from typing import Annotated

import typer
from aiohttp import web

from cli.application import create_app, examples
from cli.playing.plan_process import PlanProcess
from cli.playing.server import HOST, application
from cli.simulating.files import STANDARD_INPUT

app = create_app()


@app.command(
    epilog=examples(
        "tenon playground",
        "tenon playground -f nodepool.yaml -f deployment.yaml --open",
    )
)
def playground(
    filename: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", metavar="FILE", help="A manifest file, or a folder of manifests; repeatable."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of loopback to listen on; 0 takes a free one.")
    ] = 8090,
    timeout: Annotated[int, typer.Option(min=1, max=3600, metavar="SECONDS", help="How long a plan may take.")] = 30,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser too.")] = False,
) -> None:
    """Serve a page on this machine: plan for manifests, change them or prices, and see what differs, until Ctrl-C."""
    if STANDARD_INPUT in (filename or []):
        raise typer.BadParameter("The page reads its manifests more than once: name files instead of -.")
    try:
        asyncio.run(_serve(filename or [], port, timeout, is_opened=open_))
    except OSError as error:
        why = os.strerror(error.errno or 0)
        print(f"Port {port} of {HOST} cannot be used ({why}): name another with --port.", file=sys.stderr)
        raise typer.Exit(2) from None


async def _serve(filenames: Sequence[str], port: int, seconds: int, *, is_opened: bool) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    runner = web.AppRunner(application(PlanProcess(seconds), filenames), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        address = f"http://{HOST}:{runner.addresses[0][1]}/"
        print(f"The playground is on {address} until Ctrl-C. It is reachable from this machine only.", flush=True)
        if is_opened and not webbrowser.open(address):
            print("No browser can be opened here: copy the address.", file=sys.stderr)
        await ended.wait()
    finally:
        await runner.cleanup()
