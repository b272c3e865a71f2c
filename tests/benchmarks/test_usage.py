"""What a benchmark reports of processes: CPU time since its begin, and memory of a group at one instant."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from benchmarks.running import WITHOUT_GRPC
from benchmarks.usage import Tally, Usage


def test_cpu_time_counts_from_the_first_look_and_survives_the_end_of_a_process() -> None:
    tally = Tally()
    old, new = (1, 10.0), (2, 20.0)
    tally.note({old: (5.0, 100)}, begins=True)
    tally.note({old: (7.0, 100), new: (1.0, 50)})
    tally.note({new: (1.5, 60)})  # the old one has ended
    assert tally.cpu_seconds == pytest.approx(3.5)


def test_a_number_that_is_used_again_is_another_process() -> None:
    tally = Tally()
    tally.note({(1, 10.0): (5.0, 100)}, begins=True)
    tally.note({(1, 30.0): (0.5, 100)})
    assert tally.cpu_seconds == pytest.approx(0.5)


def test_the_peak_is_that_of_the_sum() -> None:
    tally = Tally()
    tally.note({(1, 1.0): (0.0, 100), (2, 1.0): (0.0, 10)}, begins=True)
    tally.note({(1, 1.0): (0.0, 20), (2, 1.0): (0.0, 80)})
    assert tally.peak_bytes == 110


@pytest.mark.integration
def test_groups_of_living_processes_are_looked_at_and_vanished_ones_passed_over() -> None:
    popen = psutil.Popen(["true"])
    popen.wait()
    with Usage(lambda: {"own": [psutil.Process(os.getpid()), popen]}) as usage:
        sum(range(10_000))
    assert usage.tallies["own"].peak_bytes > 2**20
    assert usage.tallies["own"].cpu_seconds >= 0


@pytest.mark.integration
def test_memory_that_processes_share_counts_once() -> None:
    """Two processes of one program share its code."""
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with (
        psutil.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first,
        psutil.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as second,
    ):
        for item in (first, second):
            item.stdout.readline()
        with Usage(lambda: {"first": [first], "second": [second], "both": [first, second]}) as usage:
            pass
        for item in (first, second):
            item.stdin.write(b"\n")
    peaks = {name: tally.peak_bytes for name, tally in usage.tallies.items()}
    assert 0 < peaks["both"] < peaks["first"] + peaks["second"]


@pytest.mark.integration
def test_the_worker_of_a_benchmark_loads_no_grpcio() -> None:
    """As in the image, which does not contain it."""
    loaded = "import sys, temporalio.worker; print('grpc' in sys.modules)"
    environment = {**os.environ, **WITHOUT_GRPC}
    done = subprocess.run([sys.executable, "-c", loaded], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
