"""``tenon sandbox worker``: the worker next to a sandbox, as the demo starts it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import psutil
import typer

from cli.application import create_app, examples
from cli.console import output_console
from cli.sandbox_output import StateDir, fail
from sandbox import stale_worker
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.layout import Layout

app = create_app(no_args_is_help=True, help="Start, stop and watch the worker next to the sandbox.")

READY_SECONDS = 60.0
"""How long a worker may take until it is ready."""
PAUSE = 0.2
"""Seconds between two questions whether it is ready, and between two looks at its log."""


class WorkerError(SandboxError):
    """The worker does not run. The message is one sentence."""


def log_of(sandbox: Sandbox) -> Path:
    """Return the worker's log."""
    return sandbox.logs / "worker.log"


def start_worker(sandbox: Sandbox) -> subprocess.Popen[bytes]:
    """Start a worker in the background, in the place of one that still runs, and wait until it is ready.

    It reads the sandbox's interruption queue, unless INTERRUPTION_QUEUE says otherwise.

    Raises:
        WorkerError: it ended, or did not become ready in time.
    """
    stale_worker.stop(sandbox.layout.root)
    environment = {"INTERRUPTION_QUEUE": sandbox.cluster_name, **os.environ, **sandbox.worker_env()}
    with log_of(sandbox).open("ab") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "cli", "worker"],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    stale_worker.note(sandbox.layout.root, worker.pid)
    _await_ready(worker, environment)
    return worker


def _await_ready(worker: subprocess.Popen[bytes], environment: Mapping[str, str]) -> None:
    url = f"http://127.0.0.1:{environment['HEALTH_PROBE_PORT']}/readyz"
    why, deadline = "no answer", time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if worker.poll() is not None:
            raise WorkerError(f"the worker ended with status {worker.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except urllib.error.HTTPError as error:
            why = error.read().decode().strip()
        except OSError as error:
            why = str(error)
        time.sleep(PAUSE)
    raise WorkerError(f"the worker did not become ready: {why}")


def metrics_address(folder: Path) -> str:
    """Return where the worker of the sandbox in ``folder`` serves its metrics; empty if none runs."""
    process = stale_worker.find(folder)
    try:
        port = process.environ().get("METRICS_PORT", "") if process is not None else ""
    except psutil.Error:
        return ""
    return f"http://127.0.0.1:{port}/metrics" if port else ""


@app.command(epilog=examples("tenon sandbox worker start", "BATCH_IDLE_DURATION=5s tenon sandbox worker start"))
def start(state: StateDir = None) -> None:
    """Start a worker with the settings of this environment, or start it again, and wait until it is ready."""
    try:
        sandbox = Sandbox.attach(state)
        worker = start_worker(sandbox)
    except SandboxError as error:
        raise fail(error) from error
    output_console().print(f"worker {worker.pid} is ready; metrics: {metrics_address(sandbox.layout.root)}")


@app.command(epilog=examples("tenon sandbox worker stop"))
def stop(state: StateDir = None) -> None:
    """Stop the worker. Nodes keep running, and nothing is decided until a worker runs again."""
    stopped = stale_worker.stop(Layout.at(state).root)
    output_console().print("the worker is stopped" if stopped else "no worker runs")


@app.command(epilog=examples("tenon sandbox worker status"))
def status(state: StateDir = None) -> None:
    """Show whether the worker runs and is ready. The exit status is 0 if it is, else 1."""
    root = Layout.at(state).root
    process = stale_worker.find(root)
    if process is None:
        output_console().print("no worker runs: `tenon sandbox worker start` starts one")
        raise typer.Exit(1)
    why = _why_not_ready(process)
    text = f"worker {process.pid} is {f'not ready: {why}' if why else 'ready'}; metrics: {metrics_address(root)}"
    output_console().print(text, highlight=False, soft_wrap=True, markup=False)
    if why:
        raise typer.Exit(1)


def _why_not_ready(process: psutil.Process) -> str:
    try:
        url = f"http://127.0.0.1:{process.environ().get('HEALTH_PROBE_PORT', '')}/readyz"
        with urllib.request.urlopen(url, timeout=2):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode().strip()
    except (OSError, ValueError, psutil.Error) as error:
        return str(error)


@app.command(
    epilog=examples(
        "tenon sandbox worker logs --tail 20", "tenon sandbox worker logs -f | jq -r '.time + \" \" + .message'"
    )
)
def logs(
    state: StateDir = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")] = False,
    tail: Annotated[int, typer.Option("--tail", metavar="N", min=0, help="The last so many lines first.")] = 100,
) -> None:
    """Print the worker's log, which outlives the worker."""
    path = Layout.at(state).logs / "worker.log"
    try:
        with path.open(encoding="utf-8", errors="replace") as log:
            for line in deque(log, maxlen=tail):
                print(line, end="")
            while follow:
                line = log.readline()
                if line:
                    print(line, end="", flush=True)
                else:
                    time.sleep(PAUSE)
    except FileNotFoundError:
        raise fail(WorkerError(f"no worker has run yet: {path} does not exist")) from None
