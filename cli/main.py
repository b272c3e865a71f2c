"""The ``tenon`` command. Each subcommand's module is loaded only when it is called."""

from __future__ import annotations

import errno
import gc
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
from cli.missing_extra import missing, stand_in
from tenon import __version__

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE}


def open_what_is_closed() -> None:
    """Discard output to a closed stream. Otherwise it could end up in the next file that the process opens."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


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


COMMANDS = {
    "approve": "cli.approve",
    "codec-server": "cli.codec_server",
    "completion": "cli.completion",
    "convert": "cli.convert",
    "cost": "cli.cost",
    "demo": "cli.demo",
    "disruptions": "cli.disruptions",
    "doctor": "cli.doctor",
    "drain-node-group": "cli.drain_node_group",
    "explain": "cli.explain",
    "handback": "cli.handback",
    "history": "cli.history",
    "node": "cli.node",
    "pause": "cli.pause",
    "playground": "cli.playground",
    "pods": "cli.pods",
    "prices": "cli.prices",
    "refuse": "cli.refuse",
    "replay": "cli.replay",
    "report": "cli.report",
    "resume": "cli.resume",
    "rollout": "cli.rollout",
    "sandbox": "cli.sandbox",
    "schedule": "cli.schedule",
    "settings": "cli.settings",
    "shadow": "cli.shadow",
    "simulate": "cli.simulate",
    "takeover": "cli.takeover",
    "teardown": "cli.teardown",
    "top": "cli.top",
    "ui": "cli.ui",
    "validate": "cli.validate",
    "why": "cli.why",
    "worker": "cli.worker",
}
"""Module that contains the ``app`` of each command."""
EXTRAS = {
    "approve": "worker",
    "codec-server": "worker",
    "cost": "worker",
    "demo": "sandbox",
    "disruptions": "worker",
    "doctor": "worker",
    "drain-node-group": "worker",
    "handback": "worker",
    "node": "worker",
    "pause": "worker",
    "playground": "worker",
    "pods": "worker",
    "prices": "worker",
    "refuse": "worker",
    "replay": "worker",
    "report": "worker",
    "resume": "worker",
    "rollout": "worker",
    "sandbox": "sandbox",
    "schedule": "worker",
    "settings": "worker",
    "shadow": "worker",
    "takeover": "worker",
    "teardown": "worker",
    "top": "worker",
    "ui": "worker",
    "why": "worker",
    "worker": "worker",
}
"""The extra that each command needs. The others run with the plain wheel, as long as they read only files."""
SENTENCES = {
    "approve": "Approve commands that wait for it: each is validated again, and its nodes leave within the budgets.",
    "codec-server": "Decrypt payloads for Temporal's UI, until Ctrl-C.",
    "completion": "Print a script that completes commands, options and names of objects in bash, zsh or fish.",
    "convert": "Convert Karpenter's manifests of any version to v1, or node groups.",
    "cost": "Show what the cluster costs, now or in a window, and who causes it.",
    "demo": "Start the sandbox and a worker, scale a Deployment up and down, and show what happens to its nodes.",
    "disruptions": "Show the commands that remove nodes: why, what for, what they save, and what they wait for.",
    "doctor": "Check settings, Temporal, Kubernetes and AWS with the worker's environment, and say what to do.",
    "drain-node-group": (
        "Move the pods of a node group to nodes of Tenon, a few nodes at a time, and make the group smaller."
    ),
    "explain": "Explain decisions about an object, from the cluster or from files.",
    "handback": "Move the cluster from Tenon to Karpenter: the same nodes, and no pod moves.",
    "history": "Show what happened, why and by whom: plans, launches, refusals, commands and removals.",
    "node": "Watch and control nodes through their workflows.",
    "pause": "Pause disruption: no node is consolidated, replaced for drift, or removed because it is empty.",
    "playground": (
        "Serve a page on this machine: plan for manifests, change them or prices, and see what differs, until Ctrl-C."
    ),
    "pods": (
        "Show the pods that wait for a node, by cause: what each NodePool lacks, what is bought, and the next attempt."
    ),
    "prices": "Print a table of a region's list prices, for the worker's setting PRICE_TABLE.",
    "refuse": "Refuse commands that wait for approval: they touch nothing, and their nodes are left alone for a time.",
    "replay": (
        "Replay past plans and disruptions with today's engine, and show which decisions change and what that costs."
    ),
    "report": "Write one page about a cluster: nodes, cost, the last days, what comes, advice.",
    "resume": "Lift pauses, so that nodes are disrupted again.",
    "rollout": "Show how far new versions of nodes are, and start, approve, pause or end their rollouts.",
    "sandbox": "Run Temporal, Kubernetes and EC2 on this machine, to try Tenon.",
    "schedule": "Show what NodeSchedules ask for.",
    "settings": "Show a worker's settings for this environment and these flags, and where each comes from.",
    "shadow": "Watch a cluster of Karpenter's, and report what Tenon would do and save.",
    "simulate": "Show which nodes Tenon would launch for the pods in these manifests, and what they cost.",
    "takeover": "Move the cluster from Karpenter to Tenon: the same nodes, and no pod moves.",
    "teardown": "End all that Tenon has bought and made for a cluster.",
    "top": "Show nodes live: use, price, stage, what keeps them; with keys to show, drain and keep.",
    "ui": "Print links into Temporal's UI: a node's or a command's page, lists of them, or all lists.",
    "validate": "Check Karpenter's manifests of any version as the API server and the worker would, without a cluster.",
    "why": "Say why, on one page: why a node was bought and who removed it, or why a pod is pending.",
    "worker": "Run the worker: workflows and activities, cluster cache and planning.",
}
"""The first sentence of each command's help, so that the list of commands loads no command's module."""


def _missing_package(command: str) -> str:
    """Return a package that the command needs and that is not installed; empty if it can run."""
    extra = EXTRAS.get(command, "")
    return missing(extra) if extra else ""


class Commands(Group):
    """Finds commands by name and loads their modules on demand."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """Return all command names."""
        return list(COMMANDS)

    def sentence(self, ctx: Any, name: str) -> str:
        """Return what the list of commands says about one."""
        return super().sentence(ctx, name) if _missing_package(name) else SENTENCES[name]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """Return the command with this name, or None if it does not exist."""
        if cmd_name not in COMMANDS:
            return None
        if package := _missing_package(cmd_name):
            return stand_in(cmd_name, EXTRAS[cmd_name], package)
        command = get_command(import_module(COMMANDS[cmd_name]).app)
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


def main() -> None:
    """Run the command and exit the process with its status."""
    gc.set_threshold(*GC_THRESHOLDS)
    open_what_is_closed()
    try:
        with report_unwritable_output():
            completion.prepare()
            app(prog_name=_program())
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
