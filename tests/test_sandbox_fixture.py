"""Which files and ports a run takes."""

from __future__ import annotations

import pytest

from sandbox.ports import RANGE
from tests.sandbox_fixture import ON_SANDBOX, TESTS, needs_sandbox, own_ports


@pytest.mark.parametrize("name", ON_SANDBOX)
def test_each_named_file_or_folder_exists(name: str) -> None:
    assert (TESTS / name).exists()


def test_a_file_needs_a_sandbox_if_it_or_its_folder_is_named() -> None:
    assert needs_sandbox(TESTS / "e2e" / "test_termination.py")
    assert needs_sandbox(TESTS / "deploy" / "test_chart.py")
    assert not needs_sandbox(TESTS / "deploy" / "test_aws.py")
    assert not needs_sandbox(TESTS / "e2e_of_something_else" / "test_a.py")


def test_no_two_processes_of_both_runs_of_make_test_have_a_port_in_common() -> None:
    without = [own_ports(RANGE, "none", process, 3) for process in range(3)]
    on_sandbox = [own_ports(RANGE, "only", process, 5) for process in range(5)]
    ports = [port for process in (*without, *on_sandbox) for port in process]
    assert len(ports) == len({*ports}) == len(RANGE)
    assert {*ports} == {*RANGE}
