"""`tenon sandbox`: starts, inspects and stops a real cluster on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.main import get_command

from activities.clock import utc_now
from cli.application import Group, create_app, examples
from cli.console import output_console
from cli.sandbox_output import Output, StateDir, fail
from cli.simulating.progress import show_progress
from sandbox import build, stale_worker
from sandbox.build import BuildError
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.helm import HELM
from sandbox.kubectl import KubectlError
from sandbox.kubelet.release import CHART, IMAGE
from sandbox.layout import Layout
from sandbox.leading_worker import LeadingWorker, read_leader
from sandbox.nodeadm import NODEADM
from sandbox.progress import shown
from sandbox.status import State, Status, read
from sandbox.supervisor_process import stop as stop_sandbox
from sandbox.temporal import TemporalKind
from sandbox.tools import MissingToolError, tool

ON_DEMAND = {"fault": "cli.fault", "worker": "cli.sandbox_worker"}
"""Modules that only their own commands load."""


class Commands(Group):
    """The commands of this module, and `fault` and `worker`, whose modules are loaded on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all command names."""
        return [*super().list_commands(ctx), *ON_DEMAND]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with this name, or None if it does not exist."""
        if cmd_name not in ON_DEMAND:
            return super().get_command(ctx, cmd_name)
        command = get_command(import_module(ON_DEMAND[cmd_name]).app)
        command.name = cmd_name
        return command


app = create_app(
    name="sandbox",
    cls=Commands,
    no_args_is_help=True,
    help="Run Temporal, Kubernetes and EC2 on this machine, to try Tenon.",
)

COLOURS = {
    State.READY: "green",
    State.FAILED: "red",
    State.STARTING: "yellow",
    State.STOPPING: "yellow",
    State.FROZEN: "cyan",
}


@app.command(
    name="build",
    epilog=examples(
        "tenon sandbox build",
    ),
)
def build_control_plane() -> None:
    """Build the control plane's programs, nodeadm and helm, unless they are in the cache; `up` builds all but helm."""
    try:
        with shown(output_console()) as on_progress:
            folder = build.ensure(on_progress)
            NODEADM.ensure(on_progress)
            HELM.ensure(on_progress)
    except (BuildError, MissingToolError) as error:
        raise fail(error) from error
    output_console().print(f"control plane: {folder}", highlight=False, soft_wrap=True)


@app.command(epilog=examples("tenon sandbox up", "tenon sandbox up --boot-delay 30 --keep-history"))
def up(
    state: StateDir = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in the foreground, and stop everything on Ctrl-C.")
    ] = False,
    boot_delay: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Seconds from an instance's launch to its Node.")
    ] = None,
    keep_history: Annotated[
        bool, typer.Option("--keep-history", help="Keep Temporal's histories across down and up.")
    ] = False,
    kubelet: Annotated[
        bool, typer.Option("--kubelet", help="Add a node with a real kubelet, as root on Debian with cgroup v1.")
    ] = False,
    temporal: Annotated[
        TemporalKind | None,
        typer.Option(
            help="Temporal's dev server, or its server on PostgreSQL, which is built once in about 9 minutes.  "
            "[default: $TENON_SANDBOX_TEMPORAL or dev]"
        ),
    ] = None,
) -> None:
    """Start the sandbox; the first time builds the control plane."""
    console = output_console()
    layout = Layout.at(state)
    try:
        running = read(layout.status)
        if running is not None and running.running:
            sandbox = Sandbox.attach(state)
            console.print("The sandbox is running already.")
        else:
            with shown(console) as on_progress:
                sandbox = Sandbox.start(
                    state,
                    on_progress=on_progress,
                    boot_delay=boot_delay,
                    keep_history=keep_history,
                    kubelet=kubelet,
                    temporal=temporal,
                    detach=not foreground,
                )
        if foreground:
            _stay(console, sandbox)
        else:
            _describe(console, sandbox)
    except (SandboxError, BuildError, MissingToolError) as error:
        raise fail(error) from error
    except KeyboardInterrupt as interrupted:
        Console(stderr=True).print("stopped")
        raise typer.Exit(130) from interrupted


def _stay(console: Console, sandbox: Sandbox) -> None:
    """Wait until the sandbox ends or Ctrl-C stops it."""
    with sandbox:
        _describe(console, sandbox)
        console.print("\nCtrl-C stops it.")
        ended = sandbox.wait()
        if ended.state is State.FAILED:
            raise SandboxError(ended.message)


@app.command(epilog=examples("tenon sandbox status", "tenon sandbox status -o json | jq -r .addresses.temporal_ui"))
def status(
    state: StateDir = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="table or json.")] = Output.TABLE,
) -> None:
    """Show what runs. The exit status is 0 if the sandbox is ready, else 1.

    It is not ready if a component does not run, or if a worker that was started here has ended by itself. A sandbox in
    which no worker was started is ready.
    """
    layout = Layout.at(state)
    sandbox_status = read(layout.status) or Status(state=State.STOPPED, message=f"there is no sandbox in {layout.root}")
    is_ready = sandbox_status.state is State.READY
    leader = read_leader(layout.kubeconfig, utc_now()) if is_ready else None
    missing = [f"{name} is {part_state}" for name, part_state in sandbox_status.not_running.items()]
    if is_ready and stale_worker.has_died(layout.root):
        missing.append("the worker has ended, and `tenon sandbox worker start` starts it again")
    if output is Output.JSON:
        document = sandbox_status.model_dump(mode="json")
        document["not_ready_because"] = missing
        document["leading_worker"] = asdict(leader) if leader is not None else None
        document |= {"kubeconfig": str(layout.kubeconfig), "worker_kubeconfig": str(layout.worker_kubeconfig)}
        print(json.dumps(document, indent=2))
    else:
        _table(output_console(), layout, sandbox_status, leader, missing)
    raise typer.Exit(0 if is_ready and not missing else 1)


@app.command(epilog=examples("tenon sandbox down"))
def down(state: StateDir = None) -> None:
    """Stop the sandbox and a worker that the demo left in it; its logs stay in the state folder."""
    layout = Layout.at(state)
    stale_worker.stop(layout.root)
    try:
        with show_progress("Stopping ..."):
            stopped = stop_sandbox(layout)
    except SandboxError as error:
        raise fail(error) from error
    nothing = f"No sandbox runs in {layout.root}. If one runs in another folder, name that with --state."
    Console().print("The sandbox is stopped." if stopped else nothing, highlight=False, soft_wrap=True, markup=False)


@app.command(epilog=examples("tenon sandbox install"))
def install(
    image: Annotated[
        Path,
        typer.Argument(
            metavar="ARCHIVE", help="The image that `make image` built.", show_default="build/image/tenon.tar"
        ),
    ] = IMAGE,
    chart: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER|ARCHIVE",
            help="Tenon's chart; that of a release is tenon-VERSION.tgz.",
            show_default="deploy/chart",
        ),
    ] = CHART,
    state: StateDir = None,
) -> None:
    """Install Tenon's chart on the real node of a sandbox that was started with --kubelet."""
    try:
        Sandbox.attach(state).install(image, chart=chart)
    except (SandboxError, BuildError, MissingToolError) as error:
        raise fail(error) from error
    output_console().print(f"Tenon runs in the namespace {Sandbox.namespace}", highlight=False)


@app.command(epilog=examples("tenon sandbox load web 90%", "tenon sandbox load web 2500m -n shop"))
def load(
    deployment: Annotated[str, typer.Argument(metavar="DEPLOYMENT", help="Its name.")],
    amount: Annotated[
        str,
        typer.Argument(
            metavar="LOAD",
            help="90%: share of the CPU that each pod requests. 1500m or 1.5: CPUs that all its pods use together.",
        ),
    ],
    namespace: Annotated[str, typer.Option("-n", "--namespace", metavar="NAME", help="Its namespace.")] = "default",
    state: StateDir = None,
) -> None:
    """Set how much CPU the pods of a Deployment use, for its HorizontalPodAutoscaler and `kubectl top`."""
    try:
        Sandbox.attach(state).load(deployment, amount, namespace)
    except (SandboxError, KubectlError) as error:
        raise fail(error) from error
    output_console().print(f"the pods of {namespace}/{deployment} use {amount} from now on", highlight=False)


def _describe(console: Console, sandbox: Sandbox) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold" if console.is_terminal else "", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("Temporal UI", sandbox.temporal_ui or "none: only the dev server has one")
    grid.add_row("Temporal", sandbox.temporal_address)
    grid.add_row("Kubernetes", sandbox.kubernetes_endpoint)
    grid.add_row("EC2", sandbox.ec2_endpoint or "not installed")
    grid.add_row("kubeconfig", str(sandbox.kubeconfig))
    if sandbox.worker_kubeconfig.exists():
        grid.add_row("worker's", str(sandbox.worker_kubeconfig))
    grid.add_row("logs", str(sandbox.logs))
    console.print(grid)
    console.print(
        f"\nexport KUBECONFIG={sandbox.kubeconfig}\n{tool('kubectl')} get nodes", highlight=False, soft_wrap=True
    )


def _table(
    console: Console,
    layout: Layout,
    sandbox_status: Status,
    leader: LeadingWorker | None,
    missing: Sequence[str],
) -> None:
    colour = "red" if missing else COLOURS.get(sandbox_status.state, "")
    has_no_worker = leader is not None and not leader.holder and not leader.unknown
    ready = f"{sandbox_status.state}, without a worker" if has_no_worker else str(sandbox_status.state)
    headline = "not ready" if missing else ready
    message = "" if sandbox_status.message == sandbox_status.state else sandbox_status.message
    more = escape("; ".join(missing) or message)
    state_text = f"[{colour}]{headline}[/]" if colour else headline
    console.print(f"{state_text}: {more}" if more else state_text, highlight=False, soft_wrap=True)
    if leader is not None:
        console.print(escape(str(leader)), highlight=False, soft_wrap=True)
    if not sandbox_status.components:
        return
    table = Table(box=None, padding=(0, 2), pad_edge=False)
    for heading in ("COMPONENT", "STATE", "PID", "READY AFTER"):
        table.add_column(heading, no_wrap=True)
    for name, part in sandbox_status.components.items():
        shade = COLOURS.get(part.state, "")
        table.add_row(
            name,
            f"[{shade}]{part.state}[/]" if shade else str(part.state),
            str(part.process.pid) if part.process and part.process.alive() else "",
            f"{part.seconds:.1f} s" if part.seconds is not None else "",
        )
    console.print(table)
    if sandbox_status.state is State.READY and sandbox_status.addresses is not None:
        console.print()
        _describe(console, Sandbox(layout, sandbox_status.addresses))
    else:
        console.print(f"\nlogs: {layout.logs}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    app()
