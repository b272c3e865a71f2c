"""Test processes of a run have sessions of their own, and workers yield to other processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.processor_share import AUTOGROUP, NICENESS

pytestmark = pytest.mark.integration


def output(code: str, **variables: str) -> str:
    """What a new process prints. It belongs to the session of this one."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"} | variables
    command = [sys.executable, "-c", f"import os\nfrom tests import processor_share\n{code}"]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(("variables", "has_own"), [({}, "False"), ({"PYTEST_XDIST_WORKER": "gw0"}, "True")])
def test_one_of_several_test_processes_has_its_own_session(variables: dict[str, str], has_own: str) -> None:
    code = "processor_share.pytest_configure()\nprint(os.getsid(0) == os.getpid())"
    assert output(code, **variables) == has_own


def test_a_process_that_yields_has_a_smaller_share_in_its_session_and_with_it() -> None:
    code = (
        "os.setsid()\nfor _ in range(2): processor_share.yield_processor()\nprint(os.getpriority(os.PRIO_PROCESS, 0))"
    )
    shares = f"{code}\nprint(processor_share.AUTOGROUP.read_text())" if AUTOGROUP.exists() else code
    niceness, *autogroup = output(shares).splitlines()
    assert niceness == str(NICENESS)
    assert all(line.endswith(f"nice {NICENESS}") for line in autogroup)
