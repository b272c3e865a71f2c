"""The process that owns all other processes of a sandbox: ``python -m sandbox.supervisor --state FOLDER``.

It starts each component when its dependencies are ready, and reports what happens in the status file. It stops all
components in reverse order on SIGTERM or SIGINT, when its owner's pipe closes (``--end-with-parent``), or when one
component ends by itself, because a cluster that lost a component must not look healthy. A component that was stopped on
purpose (see control.py) may be started again. If the supervisor itself is killed it cannot clean up, so the kernel ends
its children (`sandbox.parent_death`).
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import signal
import ssl
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil

from sandbox import audit, bootstrap, credentials, kubelet, kwok
from sandbox.components import API_SERVER, BOOTSTRAP, MANIFESTS, Component, Options, Ports, components, has_ec2
from sandbox.control import serve_control
from sandbox.kubectl import KubectlError, kubectl
from sandbox.kubelet.api_server import egress
from sandbox.layout import CLUSTER_NAME, Layout
from sandbox.parent_death import dying_with_parent
from sandbox.ports import LOOPBACK
from sandbox.status import Addresses, ComponentStatus, Process, State, Status, kill, read
from sandbox.temporal import TemporalKind
from sandbox.tools import MissingToolError, tool
from tenon.errors import TenonError

READY_SECONDS = 300.0
STOP_SECONDS = 8.0


class ComponentFailedError(TenonError):
    """A component did not start or ended by itself. The message names it and quotes its last log line."""


@dataclass
class IntentionalStop:
    """A stop on purpose: ``down`` is set when the process has ended, ``again`` when the component is to start again."""

    down: asyncio.Event = field(default_factory=asyncio.Event)
    again: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def down_already(cls) -> IntentionalStop:
        """The state of a component that has not run yet."""
        halt = cls()
        halt.down.set()
        return halt


class Supervisor:
    """Runs one sandbox."""

    def __init__(self, layout: Layout, parts: list[Component], addresses: Addresses) -> None:
        self.layout = layout
        self.parts = parts
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.ready = {name: asyncio.Event() for name in (*(part.name for part in parts), MANIFESTS, BOOTSTRAP)}
        self.stopping = asyncio.Event()
        self.halts = {part.name: IntentionalStop.down_already() for part in parts if part.on_demand}
        """Components that were stopped on purpose, and on-demand components that have not been requested yet."""
        self.status = Status(
            state=State.STARTING, supervisor=Process.of(os.getpid()), addresses=addresses, message="starting"
        )

    async def run(self) -> int:
        """Start everything, wait for a stop signal or for a component's end, and stop everything.

        Returns:
            The exit status: 1 after a failure.
        """
        work = asyncio.create_task(self._work())
        control = await serve_control(self, self.layout.control)
        stop = asyncio.create_task(self.stopping.wait())
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        failure = work.exception() if work.done() else None
        if failure is not None:
            self._write(State.STOPPING, str(failure))
            print(failure, file=sys.stderr, flush=True)
        else:
            self._write(State.STOPPING, "stopping")
        control.close()
        work.cancel()
        stop.cancel()
        with suppress(BaseException):
            await work
        await self._stop_all()
        for entry in self.status.components.values():
            if entry.state is not State.FAILED:
                entry.state = State.STOPPED
        self._write(State.FAILED if failure else State.STOPPED, str(failure) if failure else "stopped")
        return 1 if failure else 0

    async def _work(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for part in self.parts:
                    group.create_task(self._component(part))
                group.create_task(self._bootstrap())
                group.create_task(self._announce())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures

    async def _component(self, part: Component) -> None:
        for name in part.after:
            await self.ready[name].wait()
        if part.on_demand:
            await self.halts[part.name].again.wait()
            del self.halts[part.name]
        while True:
            failure = await self._life(part)
            halt = self.halts.get(part.name)
            if halt is None:
                raise failure
            await self._cleared(part)
            self._enter(part.name, State.STOPPED)
            halt.down.set()
            await halt.again.wait()
            del self.halts[part.name]

    async def _cleared(self, part: Component) -> None:
        """Delete the object that a killed component left behind, because it may break other components."""
        if part.leaves and API_SERVER not in self.halts:
            command = ("delete", *part.leaves, "--ignore-not-found")
            with suppress(KubectlError):  # the API server is ending too
                await asyncio.to_thread(kubectl, self.layout.kubeconfig, *command, timeout=STOP_SECONDS)

    async def _life(self, part: Component) -> ComponentFailedError:
        """Run one process of a component until it ends. Returns how it ended."""
        began = time.monotonic()
        log = self.layout.log(part.name)
        with log.open("ab" if part.name in self.processes else "wb") as output:
            process = await asyncio.create_subprocess_exec(
                *dying_with_parent(*part.argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(part.environment) | dict(os.environ),
                start_new_session=True,
            )
        self.processes[part.name] = process
        entry = ComponentStatus(log=str(log), process=Process.started(process.pid))
        self.status.components[part.name] = entry
        self._write()
        ended = asyncio.create_task(process.wait())
        serving = asyncio.create_task(self._until_ready(part))
        try:
            await asyncio.wait({ended, serving}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                await serving
                entry.state, entry.seconds = State.READY, round(time.monotonic() - began, 2)
                self.ready[part.name].set()
                self._write()
            code = await ended
        finally:
            ended.cancel()
            serving.cancel()
        self.ready[part.name].clear()
        entry.state = State.FAILED
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return ComponentFailedError(f"{part.name} ended with {how}: {_last_line(log)} (log: {log})")

    async def stop_component(self, name: str, *, kill: bool = False) -> None:
        """Stop one component on purpose, and return when it has ended. The others keep running.

        Raises:
            ValueError: the component does not exist or does not run.
        """
        process = self._running(name)
        halt = self.halts[name] = IntentionalStop()
        if kill:
            os.killpg(process.pid, signal.SIGKILL)
        await self._stop(name)
        await halt.down.wait()

    async def start_component(self, name: str) -> None:
        """Start a component that was stopped on purpose, and return when it serves.

        Raises:
            ValueError: the component is not stopped.
        """
        halt = self.halts.get(name)
        if halt is None or not halt.down.is_set():
            raise ValueError(f"{name} is not stopped")
        halt.again.set()
        await self.ready[name].wait()

    def freeze_component(self, name: str) -> None:
        """Suspend a component: it keeps its connections and answers nothing.

        Signals are delivered later than they are sent, so this returns when the process has stopped. WNOWAIT leaves
        its status to asyncio.
        """
        pid = self._running(name).pid
        os.killpg(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self._enter(name, State.FROZEN)

    def thaw_component(self, name: str) -> None:
        """Resume a frozen component."""
        os.killpg(self._running(name).pid, signal.SIGCONT)
        self._enter(name, State.READY)

    def component_states(self) -> dict[str, str]:
        """The state of each component."""
        return {name: str(entry.state) for name, entry in self.status.components.items()}

    def _enter(self, name: str, state: State) -> None:
        self.status.components[name].state = state
        self._write()

    def _running(self, name: str) -> asyncio.subprocess.Process:
        names = [part.name for part in self.parts]
        if name not in names:
            raise ValueError(f"there is no component {name}: give one of {', '.join(sorted(names))}")
        if self.status.state is not State.READY:
            raise ValueError(f"the sandbox is {self.status.state}, not ready")
        process = self.processes.get(name)
        if name in self.halts or process is None or process.returncode is not None:
            raise ValueError(f"{name} does not run")
        return process

    async def _until_ready(self, part: Component) -> None:
        """Wait until the component answers.

        Raises:
            ComponentFailedError: it did not answer within READY_SECONDS.
        """
        trust = ssl.create_default_context(cafile=str(self.layout.pki / "ca.crt"))
        deadline = time.monotonic() + READY_SECONDS
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            while time.monotonic() < deadline:
                with suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(part.ready, ssl=trust) as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.05)
        log = self.layout.log(part.name)
        raise ComponentFailedError(
            f"{part.name} was not ready after {READY_SECONDS:g} s: {_last_line(log)} (log: {log})"
        )

    async def _bootstrap(self) -> None:
        await self.ready[API_SERVER].wait()
        began = time.monotonic()
        tenon = kubelet.COMPONENT not in self.ready  # on a real node its chart installs it
        entry = self.status.components[BOOTSTRAP] = ComponentStatus()
        assert self.status.addresses is not None
        try:
            await asyncio.to_thread(bootstrap.populate, self.layout, self.status.addresses.kubernetes, tenon=tenon)
            self.ready[MANIFESTS].set()
            for name in ("kube-controller-manager", "kwok"):
                await self.ready[name].wait()
            await asyncio.to_thread(bootstrap.wait_until_ready, self.layout)
        except (KubectlError, MissingToolError, OSError) as error:
            entry.state = State.FAILED
            raise ComponentFailedError(f"The new cluster could not be set up: {error}") from error
        entry.state, entry.seconds = State.READY, round(time.monotonic() - began, 2)
        self.ready[BOOTSTRAP].set()
        self._write()

    async def _announce(self) -> None:
        later = {part.name for part in self.parts if part.on_demand}
        for name, event in self.ready.items():
            if name not in later:
                await event.wait()
        self._write(State.READY, "ready")

    async def _stop_all(self) -> None:
        """Stop components in reverse order of their dependencies, until none runs."""
        parts = [part for part in self.parts if part.name in self.processes]
        while parts:
            needed = {name for part in parts for name in part.after}
            wave = [part for part in parts if part.name not in needed]
            await asyncio.gather(*(self._stop(part.name) for part in wave))
            parts = [part for part in parts if part not in wave]

    async def _stop(self, name: str) -> None:
        process = self.processes[name]
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                    os.killpg(process.pid, signal.SIGCONT)  # a frozen process handles SIGTERM only after SIGCONT
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), STOP_SECONDS)

    def _write(self, state: State | None = None, message: str | None = None) -> None:
        if state is not None:
            self.status.state = state
        if message is not None:
            self.status.message = message
        self.status.write(self.layout.status)


def _last_line(log: Path) -> str:
    """The last line of a log, to show with a failure."""
    with suppress(OSError):
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1].strip()[:500]
    return "it logged nothing"


async def supervise(layout: Layout, binaries: Path, options: Options, *, end_with_parent: bool) -> int:
    """Run one sandbox in ``layout`` until it is stopped. Returns the exit status."""
    earlier = read(layout.status)
    if earlier is not None:
        kill(earlier.leftovers())
    layout.prepare()
    ports = Ports.free()
    server = f"https://{LOOPBACK}:{ports.kubernetes}"
    credentials.create(layout, server)
    layout.kwok_config.write_text(kwok.config())
    if options.audit:
        layout.audit_policy.write_text(audit.POLICY)
    if options.kubelet:
        layout.egress.write_text(egress(layout, ports.node_proxy))
    addresses = Addresses(
        kubernetes=server,
        temporal=f"{LOOPBACK}:{ports.temporal}",
        temporal_ui=f"http://{LOOPBACK}:{ports.temporal_ui}" if options.temporal is TemporalKind.DEV else None,
        ec2=f"http://{LOOPBACK}:{ports.ec2}" if has_ec2() else None,
    )
    parts = components(layout, ports, binaries, tool("temporal"), options)
    supervisor = Supervisor(layout, parts, addresses)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, supervisor.stopping.set)
    if end_with_parent:
        loop.add_reader(0, _on_pipe, supervisor)
    try:
        return await supervisor.run()
    finally:
        for child in psutil.Process().children():  # a kubectl of the bootstrap may still be waiting
            with suppress(psutil.NoSuchProcess):
                child.kill()


def _on_pipe(supervisor: Supervisor) -> None:
    """Stop when the pipe closes. The owner never writes, so the pipe is readable only after the owner has ended."""
    if not os.read(0, 1):
        asyncio.get_running_loop().remove_reader(0)
        supervisor.stopping.set()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.supervisor", description="Run one sandbox.")
    parser.add_argument("--state", required=True, type=Path)
    parser.add_argument("--binaries", required=True, type=Path)
    parser.add_argument("--nodeadm", required=True, type=Path)
    parser.add_argument("--boot-delay", type=float)
    parser.add_argument("--keep-history", action="store_true")
    parser.add_argument("--audit", action="store_true", help="write the API server's audit log")
    parser.add_argument("--kubelet", action="store_true", help="run a real node")
    parser.add_argument("--temporal", type=TemporalKind, default=TemporalKind.DEV, choices=list(TemporalKind))
    parser.add_argument("--cluster", default=CLUSTER_NAME)
    parser.add_argument("--end-with-parent", action="store_true", help="stop when standard input closes")
    arguments = parser.parse_args()
    layout = Layout.at(arguments.state)
    layout.root.mkdir(parents=True, exist_ok=True)
    with layout.lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"a sandbox runs in {layout.root} already", file=sys.stderr)
            return 2
        options = Options(
            arguments.boot_delay,
            arguments.nodeadm,
            arguments.keep_history,
            arguments.audit,
            arguments.kubelet,
            arguments.temporal,
            arguments.cluster,
        )
        try:
            return asyncio.run(
                supervise(layout, arguments.binaries, options, end_with_parent=arguments.end_with_parent)
            )
        except (MissingToolError, OSError) as error:
            print(error, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
