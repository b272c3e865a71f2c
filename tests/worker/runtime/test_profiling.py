"""OPS-03, SET-10: where a worker's processes spend their time, on the metrics port and only when asked for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sandbox.ports import free_ports
from tests.workflows.waiting import until
from worker.runtime.health import serve_metrics
from worker.runtime.telemetry.profiling import asked, sample, serve_profiles

pytestmark = pytest.mark.integration


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return str(answer.read().decode())


async def test_set10_a_profile_shows_every_process_by_its_name(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = serve_metrics(str(tmp_path), port, profiling=True)

    async def both_listen() -> bool:
        return all((tmp_path / f"profile-{name}.sock").exists() for name in ("io", "cluster"))

    tasks = [asyncio.create_task(serve_profiles(str(tmp_path), name)) for name in ("io", "cluster")]
    try:
        await until(both_listen)
        profile = await asyncio.to_thread(get, port, "/debug/pprof/profile?seconds=0")
        assert {line.split(";")[0] for line in profile.splitlines()} == {"io", "cluster"}
        assert all(line.rpartition(" ")[2].isdigit() for line in profile.splitlines())
        assert any(";MainThread;" in line for line in profile.splitlines())
        assert "cluster: MainThread" in await asyncio.to_thread(get, port, "/debug/pprof/goroutine")
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
        server.shutdown()


async def test_set10_one_profile_is_taken_at_a_time(tmp_path: Path) -> None:
    """Nobody who can reach the port can take the threads of the workers for profiles."""
    (port,) = free_ports(1)
    server = serve_metrics(str(tmp_path), port, profiling=True)
    asked_for, answer_now = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        asked_for.set()
        await answer_now.wait()
        writer.write(b"io;MainThread;work 1\n")
        writer.close()

    path = "/debug/pprof/profile?seconds=0"
    async with await asyncio.start_unix_server(slow, tmp_path / "profile-io.sock"):
        first = asyncio.create_task(asyncio.to_thread(get, port, path))
        await asked_for.wait()
        with pytest.raises(urllib.error.HTTPError, match="503"):
            await asyncio.to_thread(get, port, path)
        answer_now.set()
        assert await first == "io;MainThread;work 1\n"
        assert await asyncio.to_thread(get, port, path) == "io;MainThread;work 1\n"
    server.shutdown()


def test_set10_without_the_setting_there_is_nothing_to_ask(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = serve_metrics(str(tmp_path), port)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(port, "/debug/pprof/profile?seconds=0")
    server.shutdown()


def test_a_busy_thread_is_named_with_what_it_does() -> None:
    begun, stop = threading.Event(), threading.Event()

    def a_long_decision() -> None:
        begun.set()
        stop.wait()

    thread = threading.Thread(target=a_long_decision, name="planner")
    thread.start()
    begun.wait()
    profile = sample("cluster", 0)
    stop.set()
    thread.join()
    (line,) = [line for line in profile.splitlines() if ";planner;" in line]
    assert "a_long_decision" in line


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/debug/pprof/profile?seconds=5", ("profile", 5.0)),
        ("/debug/pprof/profile", ("profile", 30.0)),
        ("/debug/pprof/profile?seconds=9999", ("profile", 120.0)),
        ("/debug/pprof/profile?seconds=x", None),
        ("/debug/pprof/profile?seconds=nan", None),
        ("/debug/pprof/profile?seconds=inf", None),
        ("/debug/pprof/heap", None),
        ("/metrics", None),
    ],
)
def test_paths_of_profiles_and_their_seconds(path: str, expected: tuple[str, float] | None) -> None:
    assert asked(path) == expected
