"""The process of a sandbox's supervisor, as its owner sees it: started, followed until all is ready, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sandbox.ec2.region import VARIABLE
from sandbox.errors import SandboxError
from sandbox.kubelet.cleaning import clean
from sandbox.layout import Layout
from sandbox.progress import OnProgress, Progress
from sandbox.status import State, Status, kill, read

START_SECONDS = 400.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.05


def launch(layout: Layout, options: Sequence[str], region: str, *, detach: bool) -> subprocess.Popen[bytes]:
    """Start the supervisor of a sandbox.

    Args:
        layout: where the sandbox's files are.
        options: those of `sandbox.supervisor` besides its folder.
        region: that of the sandbox's AWS.
        detach: whether it outlives this process. Otherwise it ends when this process does, for any reason.
    """
    command = [sys.executable, "-m", "sandbox.supervisor", f"--state={layout.root}", *options]
    command += [] if detach else ["--end-with-parent"]
    with layout.log("supervisor").open("wb") as log:
        return subprocess.Popen(
            command,
            env={**os.environ, VARIABLE: region},
            stdin=subprocess.DEVNULL if detach else subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=Path(__file__).parent.parent,
        )


def until_ready(layout: Layout, process: subprocess.Popen[bytes], on_progress: OnProgress) -> Status:
    """Follow the status file until everything is ready.

    Raises:
        SandboxError: the sandbox failed or took too long.
    """
    began = time.monotonic()
    reported: set[str] = set()
    while time.monotonic() - began < START_SECONDS:
        ended = process.poll() is not None
        status = read(layout.status)
        if status is not None and status.supervisor is not None and status.supervisor.pid == process.pid:
            for name, part in status.components.items():
                if part.state is State.READY and name not in reported:
                    reported.add(name)
                    on_progress(Progress(f"{name} ready ({part.seconds:.1f} s)"))
            if status.state is State.READY:
                on_progress(Progress(f"sandbox ready in {time.monotonic() - began:.1f} s"))
                return status
            waiting = ", ".join(name for name, part in status.components.items() if part.state is State.STARTING)
            on_progress(Progress(f"starting {waiting or 'the sandbox'}", lasting=False))
        if ended:
            text = layout.log("supervisor").read_text(errors="replace").strip().splitlines()
            raise SandboxError(f"The sandbox did not start: {text[-1] if text else 'the supervisor said nothing'}")
        time.sleep(POLL_SECONDS)
    raise SandboxError(f"The sandbox was not ready after {START_SECONDS:g} s; its logs are in {layout.logs}.")


def stop(layout: Layout, owned: subprocess.Popen[bytes] | None = None) -> bool:
    """Stop the sandbox in ``layout``, and the processes that a killed sandbox left behind.

    Returns:
        Whether anything ran.

    Raises:
        SandboxError: a process did not end.
    """
    status = read(layout.status)
    if status is None:
        return False
    ran = status.running or bool(status.leftovers())
    end(layout, owned)
    try:
        clean(layout)
    except OSError as error:
        raise SandboxError(f"The real node of the sandbox did not end: {error}.") from error
    pids = [process.pid for process in status.leftovers()]  # those that ran when the stop began
    if pids:
        raise SandboxError(f"Processes of the sandbox did not end: {', '.join(map(str, pids))}.")
    return ran


def end(layout: Layout, owned: subprocess.Popen[bytes] | None) -> None:
    """Ask the supervisor to stop. After STOP_SECONDS, kill it and its remaining processes."""
    status = read(layout.status)
    supervisor = status.supervisor if status else None
    if owned is not None and (supervisor is None or supervisor.pid != owned.pid):
        supervisor = status = None  # it never owned the folder, or another supervisor owns it now
    if owned is not None and owned.poll() is None:
        owned.send_signal(signal.SIGTERM)
    elif supervisor is not None:
        supervisor.signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        if (owned is None or owned.poll() is not None) and (supervisor is None or not supervisor.alive()):
            break
        time.sleep(POLL_SECONDS)
    else:
        if owned is not None:
            owned.kill()
        if supervisor is not None:
            supervisor.signal(signal.SIGKILL)
    if owned is not None:
        if owned.stdin is not None:
            owned.stdin.close()
        owned.wait()
    remainder = read(layout.status) if status is not None else None
    if remainder is not None and not remainder.running:
        kill(remainder.leftovers())
