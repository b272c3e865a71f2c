"""``tenon resume``: lifts what ``tenon pause`` has written."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from activities.clock import utc_now
from cli.application import create_app, examples
from cli.connection import connected
from cli.name_completion import pool_names
from cli.nodes.workflows import run
from cli.pauses import resume

app = create_app()


@app.command(name="resume", epilog=examples("tenon resume", "tenon resume gpu"))
def resume_command(
    pools: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="NodePools; all pauses if none is named.", autocompletion=pool_names),
    ] = None,
) -> None:
    """Lift pauses, so that nodes are disrupted again. Other DisruptionFreezes stay."""
    lifted = run(_resume(pools or []))
    if lifted:
        print(f"Lifted: {', '.join(lifted)}.")
    else:
        print("Nothing is paused.", file=sys.stderr)


async def _resume(pools: list[str]) -> list[str]:
    kube = await connected()
    try:
        return await resume(kube, pools, utc_now())
    finally:
        await kube.close()
