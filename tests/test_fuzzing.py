"""The tests by hypothesis get the same inputs in every run, and new ones when somebody looks for faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

pytestmark = pytest.mark.integration

SUITE = """
from hypothesis import given, settings, strategies as st

{more}
@settings(max_examples=100)
@given(st.lists(st.integers()), st.text())
def test_of_inputs(numbers, text):
    print("given", numbers, ascii(text))

def test_without():
    print("given nothing")
"""


def inputs(folder: Path, *options: str, more: str = "") -> list[str]:
    """What the test of a suite of its own is given."""
    suite = folder / "test_suite.py"
    suite.write_text(SUITE.format(more=more))
    command = [sys.executable, "-m", "pytest", "-p", "tests.fuzzing", "-qs", "--rootdir", str(folder), *options]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # of this run
    run = subprocess.run(
        [*command, str(suite)], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return [line for line in run.stdout.splitlines() if "given" in line]


def test_every_run_tries_the_same_inputs(tmp_path: Path) -> None:
    """A fifth of them. They stay the same after another number or text was written somewhere in the code."""
    first = inputs(tmp_path)
    assert len(first) == 21
    assert inputs(tmp_path, more="LIMITS = [731_113, 'seven hundred', 99_017, 'abc', -8_123]") == first


def test_fuzzing_tries_many_more_and_others_each_time(tmp_path: Path) -> None:
    """Of the tests by hypothesis, also where one says how many examples it takes, and no other test."""
    first = inputs(tmp_path, "--fuzz", "2")
    assert len(first) == 200
    assert inputs(tmp_path, "--fuzz", "2") != first


def test_no_test_by_hypothesis_here_measures_time(request: pytest.FixtureRequest) -> None:
    default = settings.default
    assert default is not None
    assert default.deadline is None
    session = [getattr(item, "obj", None) for item in request.session.items]
    own = [getattr(test, "_hypothesis_internal_use_settings", default) for test in session]
    assert all(item.deadline is None for item in own)
