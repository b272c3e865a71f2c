"""The benchmark's command: every case that is named runs, in a process of its own, and is reported whole."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from rich.console import Console

from benchmarks.cases import CASES, Case, chosen
from benchmarks.scheduling import Figures, as_table


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.scheduling", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.integration
def test_one_case_for_machines() -> None:
    done = run("--mix", "plain", "--pods", "50", "-o", "json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["mix"], row["pods"], row["placed"], row["refused"]) == ("plain", 50, 50, 0)
    assert 0 < row["bound"] <= row["price"]
    assert row["ratio"] == pytest.approx(row["price"] / row["bound"])
    assert row["megabytes"] > 10
    assert row["podsPerSecond"] == pytest.approx(50 / row["seconds"])


@pytest.mark.integration
def test_the_seed_mix_buys_from_the_built_in_catalogue() -> None:
    done = run("--mix", "seed", "--pods", "10", "-o", "json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["price"] <= row["goals"]["price"]
    assert row["nodes"] <= row["goals"]["nodes"]


def test_the_table_says_what_was_refused_and_which_goals_were_missed() -> None:
    case = Case("diverse", 500, speed=4_000, ratio=1.57)
    whole, partial = Figures(500, 0, 100, 150.0, 100.0, 0.1, 80.0), Figures(300, 200, 10, 60.0, 50.0, 0.1, 80.0)
    with (console := Console(width=200, force_terminal=True)).capture() as captured:
        console.print(as_table([(case, whole), (case, partial)], 42))
    first, second = [line for line in captured.get().splitlines() if "diverse" in line]
    assert "\x1b[32m1.500\x1b[0m (1.570)" in first
    assert "\x1b[32m5,000\x1b[0m (4,000)" in first
    assert "(200 refused)" in second
    assert "\x1b[31m1.200\x1b[0m (1.570)" in second


def test_cases_are_chosen_by_mix_and_size() -> None:
    assert chosen([], None) == list(CASES)
    assert [case.pods for case in chosen(["diverse"], 500)] == [500]
    assert chosen(["diverse"], 500)[0].speed == 4_000
    assert chosen(["plain"], 77) == [Case("plain", 77)]
    assert [case.ignore_preferences for case in chosen(["preference"], None)] == [False, True]
