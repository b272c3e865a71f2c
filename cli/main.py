"""The ``tenon`` command. Each subcommand's module is loaded only when it is called."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from cli.application import Group, create_app
from cli.missing_extra import missing, stand_in
from cli.streams import open_what_is_closed, report_unwritable_output
from tenon import __version__

COMMANDS = {
    "codec-server": "cli.codec_server",
    "convert": "cli.convert",
    "demo": "cli.demo",
    "doctor": "cli.doctor",
    "explain": "cli.explain",
    "handback": "cli.handback",
    "node": "cli.node",
    "prices": "cli.prices",
    "sandbox": "cli.sandbox",
    "settings": "cli.settings",
    "simulate": "cli.simulate",
    "validate": "cli.validate",
    "worker": "cli.worker",
}
"""Module that contains the ``app`` of each command."""
EXTRAS = {
    "codec-server": "worker",
    "demo": "sandbox",
    "doctor": "worker",
    "handback": "worker",
    "node": "worker",
    "prices": "worker",
    "sandbox": "sandbox",
    "settings": "worker",
    "worker": "worker",
}
"""The extra that each command needs. The others run with the plain wheel, as long as they read only files."""


class Commands(Group):
    """Finds commands by name and loads their modules on demand."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """Return all command names."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """Return the command with this name, or None if it does not exist."""
        if cmd_name not in COMMANDS:
            return None
        extra = EXTRAS.get(cmd_name, "")
        if extra and (package := missing(extra)):
            return stand_in(cmd_name, extra, package)
        command = get_command(import_module(COMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command


app = create_app(
    name="tenon",
    cls=Commands,
    no_args_is_help=True,
)


def main() -> None:
    """Run the command and exit the process with its status."""
    open_what_is_closed()
    try:
        with report_unwritable_output():
            app()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        if "temporalio" in sys.modules:
            from worker.runtime.hard_exit import hard_exit

            hard_exit(status)
        raise


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"tenon {__version__}")
        raise typer.Exit


@app.callback()
def tenon(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Tenon launches right-sized EC2 nodes for unschedulable pods. Each node's life is a Temporal workflow."""
