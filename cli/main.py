"""The ``tenon`` command. Each subcommand's module is loaded only when it is called."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.main import get_command

from cli import completion
from cli.application import Group, create_app
from cli.commands import COMMANDS, module_of
from cli.missing_extra import missing, stand_in
from tenon import __version__

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE}


def open_what_is_closed() -> None:
    """Discard output to a closed stream. Otherwise it could end up in the next file that the process opens."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def set_encoding() -> None:
    """Write UTF-8 into files and pipes, because manifests and JSON are UTF-8 whatever the locale says.

    A terminal keeps its encoding and shows escapes for what that lacks.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


@contextmanager
def report_unwritable_output() -> Iterator[None]:
    """Exit with status 1 and a message if the output cannot be written; without a message if its reader has gone.

    Raises:
        SystemExit: the command's own exit, or status 1.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        if error.errno != errno.EPIPE:
            print(f"tenon: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discards what remains in the buffer
        raise SystemExit(1) from None


def _missing_package(command: str) -> str:
    """Return a package that the command needs and that is not installed; empty if it can run."""
    extra = COMMANDS[command].extra
    return missing(extra) if extra else ""


class Commands(Group):
    """Finds commands by name and loads their modules on demand."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """Return all command names."""
        return list(COMMANDS)

    def sentence(self, ctx: Any, name: str) -> str:
        """Return what the list of commands says about one."""
        return super().sentence(ctx, name) if _missing_package(name) else COMMANDS[name].sentence

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """Return the command with this name, or None if it does not exist."""
        if cmd_name not in COMMANDS:
            return None
        if package := _missing_package(cmd_name):
            return stand_in(cmd_name, COMMANDS[cmd_name].extra, package)
        command = get_command(import_module(module_of(cmd_name)).app)
        command.name = cmd_name
        return command


app = create_app(
    name="tenon",
    cls=Commands,
    no_args_is_help=True,
)


def _program() -> str:
    """How the user calls this command, for its usage: kubectl finds its plugins by their names."""
    return "kubectl tenon" if Path(sys.argv[0]).name == "kubectl-tenon" else "tenon"


def complete_for_kubectl() -> None:
    """Print what may follow on a command line of ``kubectl tenon``."""
    completion.answer_kubectl(lambda: app(prog_name="tenon"), sys.argv[1:])


GC_THRESHOLDS = (250_000, 50, 100)
"""New objects before the youngest generation is collected, and collections before one of the older ones. The modules
and the catalogue of a plan are 200,000 objects without cycles, and Python's own thresholds spend a tenth of a small
plan on them. The processes of a worker have thresholds of their own (`worker.runtime.memory`).
"""
QUICK = {
    "OPENBLAS_NUM_THREADS": "1",  # NumPy's other threads do nothing for products as small as ours, and spin meanwhile
    "PYDANTIC_DISABLE_PLUGINS": "1",  # pydantic looks for them in the metadata of every package
}
"""Variables that libraries read when they are loaded, unless the user has set them."""


def main() -> None:
    """Run the command and exit the process with its status."""
    gc.set_threshold(*GC_THRESHOLDS)
    for name, value in QUICK.items():
        os.environ.setdefault(name, value)
    open_what_is_closed()
    set_encoding()
    try:
        with report_unwritable_output():
            completion.prepare()
            app(prog_name=_program())
    except SystemExit as ended:
        gc.freeze()  # otherwise the interpreter searches all objects for cycles once more before it exits
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
