"""The supervisor's promises, on small processes in place of a control plane."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from sandbox import bootstrap, credentials
from sandbox.components import API_SERVER, Component
from sandbox.control import order, serve_control
from sandbox.layout import Layout
from sandbox.parent_death import dying_with_parent
from sandbox.ports import free_ports
from sandbox.status import Addresses, Process, State, Status, read
from sandbox.supervisor import Supervisor
from tests.workflows.waiting import until

pytestmark = pytest.mark.integration

NAMES = ("etcd", API_SERVER, "kube-controller-manager", "kwok")


def server(name: str, port: int, *after: str) -> Component:
    """A component that answers 200 and notes when it is asked to stop."""
    code = (
        "import http.server, signal, sys\n"
        "class Answer(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers()\n"
        f"def stop(*_): open('order', 'a').write('{name}\\n'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        f"http.server.HTTPServer(('127.0.0.1', {port}), Answer).serve_forever()\n"
    )
    return Component(name, (sys.executable, "-c", code), f"http://127.0.0.1:{port}/", after)


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """A supervisor of four small servers, whose cluster needs no setting up."""
    layout = Layout.at(tmp_path)
    layout.prepare()
    credentials.create(layout, "https://127.0.0.1:1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bootstrap, "populate", lambda *_, **__: None)
    monkeypatch.setattr(bootstrap, "wait_until_ready", lambda *_, **__: None)
    needs = ((), ("etcd",), (API_SERVER,), (API_SERVER,))
    parts = [server(*name[:2], *name[2]) for name in zip(NAMES, free_ports(4), needs, strict=True)]
    return Supervisor(layout, parts, Addresses(kubernetes="k", temporal="t", temporal_ui="u"))


async def ready(supervisor: Supervisor) -> asyncio.Task[int]:
    """Its run, once all is ready."""
    run = asyncio.create_task(supervisor.run())
    while supervisor.status.state is State.STARTING and not run.done():
        await asyncio.sleep(0)
        for event in supervisor.ready.values():
            await event.wait()
    return run


async def test_it_stops_what_others_need_last(supervisor: Supervisor, tmp_path: Path) -> None:
    run = await ready(supervisor)
    result = read(supervisor.layout.status)
    assert result is not None
    assert result.state is State.READY
    processes = [psutil.Process(process.pid) for process in supervisor.processes.values()]
    supervisor.stopping.set()
    assert await run == 0
    stopped = (tmp_path / "order").read_text().split()
    assert set(stopped[:2]) == {"kube-controller-manager", "kwok"}
    assert stopped[2:] == [API_SERVER, "etcd"]
    assert not any(process.is_running() for process in processes)
    result = read(supervisor.layout.status)
    assert result is not None
    assert result.state is State.STOPPED


async def test_a_component_that_ends_stops_all_and_is_named(supervisor: Supervisor) -> None:
    run = await ready(supervisor)
    supervisor.processes["kwok"].send_signal(signal.SIGKILL)
    assert await run == 1
    result = read(supervisor.layout.status)
    assert result is not None
    assert result.state is State.FAILED
    assert result.message.startswith("kwok ended with signal SIGKILL")
    assert result.components["kwok"].state is State.FAILED
    assert result.components["etcd"].state is State.STOPPED
    assert result.leftovers() == []


async def test_a_component_that_cannot_start_shows_its_last_words(supervisor: Supervisor) -> None:
    supervisor.parts[0] = Component(
        "etcd", (sys.executable, "-c", "raise SystemExit('disk full')"), "http://127.0.0.1:1/"
    )
    assert await supervisor.run() == 1
    assert supervisor.status.message.startswith("etcd ended with exit status 1: disk full (log: ")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next `up` or `down` sweeps")
def test_a_program_dies_with_its_parent() -> None:
    child = dying_with_parent(sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
    code = (
        "import os, subprocess, sys\n"
        f"child = {child!r}\n"
        "child[4] = str(os.getpid())\n"
        "started = subprocess.Popen(child, stdout=subprocess.PIPE, start_new_session=True)\n"
        "started.stdout.readline()\n"
        "print(started.pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child_process = psutil.Process(int(parent.stdout.readline()))
        assert child_process.is_running()
        parent.kill()
    _, alive = psutil.wait_procs([child_process], timeout=30)
    assert not alive


def test_the_status_of_a_killed_supervisor_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        removal = Process.of(process.pid)
        Status(state=State.READY, supervisor=removal).write(path)
        result = read(path)
        assert result is not None
        assert result.running
        process.kill()
    result = read(path)
    assert result is not None
    assert result.state is State.FAILED
    assert "killed" in result.message


def test_a_later_process_of_the_same_number_is_another(tmp_path: Path) -> None:
    mine = Process.of(psutil.Process().pid)
    assert mine.alive()
    assert not Process(pid=mine.pid, created=mine.created - 3600).alive()


def test_a_component_may_end_before_the_supervisor_looks_at_its_process() -> None:
    """On a busy machine. It has ended then, and no other process of that number is taken for it."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert not Process.started(process.pid).alive()
    assert Process.started(psutil.Process().pid).alive()


async def test_a_component_that_is_stopped_on_purpose_may_be_started_again(supervisor: Supervisor) -> None:
    """The others go on meanwhile, and the sandbox is not taken for broken."""
    run = await ready(supervisor)
    path = supervisor.layout.control
    await asyncio.to_thread(order, path, "stop", "kwok")
    assert read_status(supervisor).components["kwok"].state is State.STOPPED
    assert read_status(supervisor).state is State.READY
    before = supervisor.processes["kwok"].pid
    await asyncio.to_thread(order, path, "start", "kwok")
    assert supervisor.processes["kwok"].pid != before
    assert read_status(supervisor).components["kwok"].state is State.READY
    supervisor.stopping.set()
    assert await run == 0


async def test_a_frozen_component_answers_again_once_thawed(supervisor: Supervisor) -> None:
    run = await ready(supervisor)
    path, process = supervisor.layout.control, psutil.Process(supervisor.processes["etcd"].pid)
    assert (await asyncio.to_thread(order, path, "freeze", "etcd"))["etcd"] == "frozen"
    assert process.status() == psutil.STATUS_STOPPED
    assert (await asyncio.to_thread(order, path, "thaw", "etcd"))["etcd"] == "ready"
    assert process.status() != psutil.STATUS_STOPPED
    await asyncio.to_thread(order, path, "freeze", "etcd")  # and a frozen one can be stopped
    supervisor.stopping.set()
    assert await run == 0


async def test_what_was_stopped_is_not_stopped_again_and_a_killed_one_had_no_time(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    run = await ready(supervisor)
    path = supervisor.layout.control
    await asyncio.to_thread(order, path, "kill", "kwok")
    assert not (tmp_path / "order").exists(), "a killed component cannot note that it was asked to stop"
    with pytest.raises(ValueError, match="kwok does not run"):
        await asyncio.to_thread(order, path, "stop", "kwok")
    assert (await asyncio.to_thread(order, path, "status"))["kwok"] == "stopped"
    supervisor.stopping.set()
    assert await run == 0


async def test_a_component_on_demand_starts_when_somebody_asks(supervisor: Supervisor, tmp_path: Path) -> None:
    """The sandbox is ready without it; once started it is a component like the others."""
    late = replace(server("late", free_ports(1)[0], API_SERVER), on_demand=True)
    addresses = supervisor.status.addresses
    assert addresses is not None
    supervisor = Supervisor(supervisor.layout, [*supervisor.parts, late], addresses)
    run = asyncio.create_task(supervisor.run())
    for name in NAMES:
        await supervisor.ready[name].wait()
    await until(partial(_is_ready, supervisor))
    path = supervisor.layout.control
    assert "late" not in await asyncio.to_thread(order, path, "status")
    with pytest.raises(ValueError, match="late does not run"):
        await asyncio.to_thread(order, path, "stop", "late")
    assert (await asyncio.to_thread(order, path, "start", "late"))["late"] == "ready"
    supervisor.stopping.set()
    assert await run == 0
    assert (tmp_path / "order").read_text().split()[-2:] == [API_SERVER, "etcd"]


async def _is_ready(supervisor: Supervisor) -> bool:
    return supervisor.status.state is State.READY


async def test_a_long_state_folder_has_a_control_socket_too(tmp_path: Path) -> None:
    class Nothing:
        def component_states(self) -> dict[str, str]:
            return {"etcd": "ready"}

    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    server = await serve_control(Nothing(), folder / "control")  # type: ignore[arg-type]
    assert await asyncio.to_thread(order, folder / "control", "status") == {"etcd": "ready"}
    server.close()


@pytest.mark.parametrize(
    ("do", "component", "why"),
    [("stop", "nothing", "no component"), ("start", "etcd", "is not stopped"), ("melt", "etcd", "cannot melt")],
)
async def test_an_order_that_makes_no_sense_is_refused(
    supervisor: Supervisor, do: str, component: str, why: str
) -> None:
    run = await ready(supervisor)
    with pytest.raises(ValueError, match=why):
        await asyncio.to_thread(order, supervisor.layout.control, do, component)
    supervisor.stopping.set()
    assert await run == 0


def read_status(supervisor: Supervisor) -> Status:
    """What anybody can read of it."""
    result = read(supervisor.layout.status)
    assert result is not None
    return result
