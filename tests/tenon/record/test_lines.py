"""Entries of the record as lines of JSON."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tenon.kube.pool_reasons import NoPlace
from tenon.record.entries import (
    CommandCandidate,
    CommandEndEntry,
    CommandEntry,
    CostEntry,
    CostRow,
    DecidedCommand,
    DisruptionEntry,
    Entry,
    EntryKind,
    LaunchEntry,
    PlanEntry,
    RecordedNode,
    RecordedPurchase,
    RefusalEntry,
    RemovalEntry,
    TeardownEntry,
)
from tenon.record.lines import MAX_LINE, UnreadableLineError, distinct, entry_of, line_of

AT = datetime(2026, 11, 27, 6, 0, tzinfo=UTC)
NODE = RecordedNode(claim="default-1", pool="default", node="ip-10-0-0-1", instance="i-1", instance_type="m5.large")
ENTRIES: list[Entry] = [
    PlanEntry(
        id="plan/1",
        at=AT,
        cluster="prod",
        batch=1,
        pods=2,
        purchases=[
            RecordedPurchase(claim="default-1", pool="default", instance_type="m5.large", price=0.096, pods=["a/b"])
        ],
        unschedulable={"a/c": NoPlace.of("no NodePool allows it")},
    ),
    CommandEntry(
        id="command/1",
        at=AT,
        cluster="prod",
        command="c1",
        reason="Empty",
        candidates=[CommandCandidate(claim="default-1", pool="default", price=0.096)],
    ),
    CommandEndEntry(id="command-end/1", at=AT, cluster="prod", command="c1", reason="Empty", accepted=["default-1"]),
    LaunchEntry(id="launch/1", at=AT, cluster="prod", facts=NODE, launched_at=AT),
    RefusalEntry(
        id="refusal/1", at=AT, cluster="prod", claim="default-2", pool="default", code="InsufficientInstanceCapacity"
    ),
    RemovalEntry(id="removal/1", at=AT, cluster="prod", facts=NODE, reason="Expired", cost=1.25, actor="ann"),
    TeardownEntry(
        id="teardown/1",
        at=AT,
        cluster="prod",
        actor="ann",
        reason="moved",
        ended={"instance i-1": "m5.large"},
        counts={"instance": 1},
        leftovers={"instance i-2": "it has termination protection"},
    ),
    CostEntry(
        id="cost/1", at=AT, cluster="prod", since=AT, samples=15, rows=[CostRow(pool="default", of="idle", cost=0.1)]
    ),
    DisruptionEntry(
        id="disruption/1",
        at=AT,
        cluster="prod",
        commands=[DecidedCommand(reason="Empty", decision="delete", claims=["default-1"], saving=0.096)],
        refused={"default-2": "a pod may not be evicted"},
    ),
]


def test_there_is_an_example_of_each_kind() -> None:
    assert {entry.kind for entry in ENTRIES} == set(EntryKind)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.kind))
def test_a_line_is_read_as_the_entry_that_it_was_made_of(entry: Entry) -> None:
    line = line_of(entry)

    assert "\n" not in line
    assert entry_of(line) == entry


def test_fields_of_a_newer_version_are_ignored() -> None:
    line = line_of(ENTRIES[3]).replace('"kind":', '"newer":{"a":1},"kind":')

    assert entry_of(line) == ENTRIES[3]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("", "JSON"),
        ("{}", "kind"),
        ('{"kind": "dream"}', "dream"),
        ('{"kind": "plan", "id": "1", "at": "yesterday", "cluster": "c", "batch": 1, "pods": 0}', "at"),
        ("x" * (MAX_LINE + 1), "at most"),
    ],
)
def test_what_is_no_entry_is_refused_with_the_reason(line: str, part: str) -> None:
    with pytest.raises(UnreadableLineError, match=part):
        entry_of(line)


def test_an_entry_that_was_recorded_twice_is_read_once() -> None:
    assert list(distinct([*ENTRIES, *ENTRIES])) == ENTRIES
