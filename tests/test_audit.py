"""What fails a whole run, and which tests it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit import ProcessRecord, Ran, RunRecord, SharedFault, read, shared_faults
from tests.rights import Refusal, policy_faults

MORNING = 1_800_000_000.0  # 08:00:00


def at(seconds: float) -> float:
    return MORNING + seconds


def test_a_fault_names_the_test_that_ran_at_that_moment() -> None:
    run = RunRecord(tests=[Ran("a", at(0), at(5)), Ran("b", at(6), at(9))], faults=[SharedFault("It broke.", at(7))])
    assert shared_faults(run) == ["08:00:07 It broke. (running then: b)"]


def test_a_fault_between_tests_names_the_test_before() -> None:
    run = RunRecord(tests=[Ran("a", at(0), at(5)), Ran("b", at(9), at(9))], faults=[SharedFault("It broke.", at(7))])
    assert shared_faults(run) == ["08:00:07 It broke. (after: a)"]


def test_a_fault_that_repeats_is_said_once_with_its_first_time() -> None:
    run = RunRecord(faults=[SharedFault("It broke.", at(7)), SharedFault("It broke.", at(3))])
    assert shared_faults(run) == ["08:00:03 It broke. (before any test)"]


@pytest.mark.parametrize(
    ("refusal", "reported"),
    [
        (Refusal("ec2:A", "no A", at(3)), True),
        (Refusal("ec2:A", "no A", at(3), expected=True), False),
        (Refusal("ec2:B", "no B", at(3)), False),
        (Refusal("ec2:B", "no B", at(9)), False),
        (Refusal("ec2:B", "no B", at(30)), True),
    ],
    ids=["not wanted", "the policy was replaced", "the test wants it", "soon after that test", "long after that test"],
)
def test_a_refused_call_is_a_fault_unless_a_test_wants_it_then(refusal: Refusal, reported: bool) -> None:
    run = RunRecord(tests=[Ran("wants", at(0), at(5), ("ec2:B",)), Ran("other", at(6), at(40))], refused=[refusal])
    assert bool(shared_faults(run)) is reported


def test_records_of_all_processes_are_read(tmp_path: Path) -> None:
    first, second = ProcessRecord(tmp_path, "only-gw0"), ProcessRecord(tmp_path, "only-gw1")
    first.ran(Ran("a", at(0), at(5), ("ec2:A",)))
    first.report("It broke.", at=at(1))
    second.rights.write_text(
        '{"used": "ec2:U"}\n{"refused": "ec2:R", "message": "no R", "expected": true, "at": 1800000002.0}\n'
    )
    assert read(tmp_path) == [
        RunRecord(tests=[Ran("a", at(0), at(5), ("ec2:A",))], faults=[SharedFault("It broke.", at(1))]),
        RunRecord(used={"ec2:U"}, refused=[Refusal("ec2:R", "no R", at(2), expected=True)]),
    ]


def test_a_whole_run_fails_on_rights_that_nothing_used_and_any_run_on_a_listed_one_that_was_used() -> None:
    granted, listed = {"ec2:A", "ec2:B", "ec2:E"}, {"ec2:E"}
    assert policy_faults({"ec2:A", "ec2:B"}, granted, listed, whole=True) == []
    assert len(policy_faults({"ec2:A"}, granted, listed, whole=True)) == 1
    assert policy_faults({"ec2:A"}, granted, listed, whole=False) == []
    assert len(policy_faults({"ec2:E"}, granted, listed, whole=False)) == 1
