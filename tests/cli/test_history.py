"""``tenon history`` from a record alone, and from a real Temporal server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from typer.testing import CliRunner, Result

from cli import history
from cli.history import app
from tenon.evolve import evolve
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import MeasuredSaving
from tenon.record.entries import Entry
from tenon.record.lines import line_of
from tests.activities.record.kept import KeptRecord
from tests.worker.record.entries import AT, launch, refusal, removal
from tests.workflows.fake_steps import FakeSteps, command
from tests.workflows.waiting import until
from worker.runtime.temporal.recorded_workflows import RecordInterceptor
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow

HOUR = timedelta(hours=1)
SINCE = ("--since", "2026-11-27T00:00")
History = Callable[..., Result]


@pytest.fixture
def tenon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> History:
    """Runs ``tenon history`` an hour after the entries, without a cluster."""
    for name in ("CLUSTER_NAME", "TENON_RECORD", "RECORD_SINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TENON_SANDBOX_DIR", str(tmp_path / "no-sandbox"))
    monkeypatch.setattr(history, "utc_now", lambda: AT + HOUR)
    return lambda *arguments, **options: CliRunner().invoke(app, list(arguments), **options)


@pytest.fixture
def record(tmp_path: Path) -> str:
    """A refusal, a launch and a removal of one node, and a removal of another."""
    path = tmp_path / "record.jsonl"
    entries: list[Entry] = [refusal(1), launch(1), removal(1, at=AT + HOUR / 2), removal(2, reason="Empty")]
    path.write_text("".join(f"{line_of(entry)}\n" for entry in entries))
    return str(path)


def kinds(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [row["kind"] for row in json.loads(result.stdout)]


def test_a_node_that_is_gone_has_its_history_by_each_of_its_names(tenon: History, record: str) -> None:
    for name in ("ip-10-0-0-1", "default-1", "i-1"):
        answer = tenon(name, *SINCE, "--record", record, "-o", "json")
        assert kinds(answer) == ["refusal", "launch", "removal"], name


def test_a_node_is_known_without_its_domain_as_narrow_lists_print_it(tenon: History, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    nodes = ["ip-10-0-0-1.x.internal", "ip-10-0-0-2.x.internal", "ip-10-0-0-2.y.internal"]
    entries = [removal(number) for number in range(len(nodes))]
    whole = [evolve(entry, facts=evolve(entry.facts, node=node)) for entry, node in zip(entries, nodes, strict=True)]
    path.write_text("".join(f"{line_of(entry)}\n" for entry in whole))
    answer = tenon("ip-10-0-0-1", *SINCE, "--record", str(path), "-o", "json")
    assert [row["facts"]["node"] for row in json.loads(answer.stdout)] == nodes[:1]
    refused = tenon("ip-10-0-0-2", *SINCE, "--record", str(path))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("ip-10-0-0-2 stands for 2 Nodes, ip-10-0-0-2.x.internal, ip-10-0-0-2.y.internal:")


def test_the_log_of_a_worker_is_read_from_standard_input(tenon: History, record: str) -> None:
    log = "The worker starts\n" + Path(record).read_text()
    answer = tenon("ip-10-0-0-1", *SINCE, "--record", "-", "-o", "json", input=log)
    assert kinds(answer) == ["refusal", "launch", "removal"]


def test_a_table_says_what_happened_why_and_by_whom(tenon: History, record: str) -> None:
    lines = tenon("default-1", *SINCE, "--record", record).stdout.splitlines()
    assert lines[0].split() == ["Time", "(UTC)", "Kind", "About", "What", "Why", "By"]
    assert "2026-11-27 06:45:00" in lines[3]
    assert "m5.large, ran 2h, cost $0.1920, 0 pods evicted" in lines[3]
    assert "Expired: the disk is broken" in lines[3]
    assert lines[3].endswith("ann with tenon node")


def test_a_message_in_the_record_cannot_steer_the_terminal(tenon: History, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text(line_of(evolve(removal(1), detail="the disk\x1b[2K is \x9bbroken")))
    answer = tenon(*SINCE, "--record", str(path))
    assert "Expired: the disk[2K is broken" in answer.stdout
    assert not {"\x1b", "\x9b"} & set(answer.stdout)


def test_a_table_of_launches_ends_with_what_they_cost_and_json_has_entries_only(tenon: History, record: str) -> None:
    question = (*SINCE, "--record", record, "--kind", "launch")
    assert tenon(*question).stdout.splitlines()[-1] == "1 node launched, $0.0960 an hour in all"
    assert kinds(tenon(*question, "-o", "json")) == ["launch"]
    assert "in all" not in tenon(*SINCE, "--record", record).stdout


def test_entries_are_chosen_by_kind_and_reason(tenon: History, record: str) -> None:
    assert kinds(tenon(*SINCE, "--record", record, "--kind", "refusal", "-o", "json")) == ["refusal"]
    assert kinds(tenon(*SINCE, "--record", record, "--reason", "empty", "-o", "json")) == ["removal"]
    assert kinds(tenon(*SINCE, "--record", record, "--pool", "other", "-o", "json")) == []


def test_claims_without_an_instance_are_counted_and_shown_if_asked_for(tenon: History, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    never = evolve(removal(2), launched_at=None, facts=evolve(removal(2).facts, instance="", node=""))
    path.write_text("".join(f"{line_of(entry)}\n" for entry in (removal(1), never)))
    question = (*SINCE, "--record", str(path), "--kind", "removal", "-o", "json")
    answer = tenon(*question)
    assert [row["id"] for row in json.loads(answer.stdout)] == [removal(1).id]
    assert "Left out are the ends of 1 NodeClaim that never had an instance: --unlaunched shows them." in answer.stderr
    whole = tenon(*question, "--unlaunched")
    assert (len(kinds(whole)), "Left out" in whole.stderr) == (2, False)
    assert len(kinds(tenon(never.facts.claim, *question))) == 1, "it is asked about"
    path.write_text(f"{line_of(never)}\n")
    alone = tenon(never.facts.pool, *question)
    assert (alone.exit_code, json.loads(alone.stdout)) == (0, [])
    assert "Left out" in alone.stderr
    assert "Nothing" not in alone.stderr


def test_the_newest_entries_are_shown_and_the_command_says_that_there_are_more(tenon: History, record: str) -> None:
    answer = tenon(*SINCE, "--record", record, "--limit", "1", "-o", "json")
    (row,) = json.loads(answer.stdout)
    assert row["id"] == removal(1).id
    assert "These are the newest 1 of 4 entries: --limit shows more." in answer.stderr


def test_the_cluster_has_a_column_if_there_are_several(tenon: History, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text(f"{line_of(removal(1))}\n{line_of(removal(1, cluster='staging'))}\n")
    lines = tenon(*SINCE, "--record", str(path)).stdout.splitlines()
    assert lines[0].split() == ["Time", "(UTC)", "Kind", "About", "What", "Why", "By", "Cluster"]
    assert {line.split()[-1] for line in lines[1:]} == {"prod", "staging"}
    one_cluster = tenon(*SINCE, "--record", str(path), "--cluster", "prod")
    assert "Cluster" not in one_cluster.stdout


def test_entries_whose_time_has_no_zone_do_not_count(tenon: History, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text(f"{line_of(removal(1))}\n{line_of(removal(2, at=AT.replace(tzinfo=None)))}\n")
    answer = tenon(*SINCE, "--record", str(path), "-o", "json")
    assert len(kinds(answer)) == 1
    assert "1 entry of the record has a time without a zone, and does not count." in answer.stderr


def test_temporal_that_is_not_asked_is_mentioned(tenon: History, record: str) -> None:
    answer = tenon("default-1", *SINCE, "--record", record)
    assert (
        "Temporal is not asked, because no cluster is named: name it with --cluster or CLUSTER_NAME." in answer.stderr
    )


def test_a_record_that_begins_late_is_mentioned(tenon: History, record: str) -> None:
    """It may have been rotated away, or begun only then."""
    answer = tenon("--since", "30d", "--record", record)
    assert "The oldest entry of the record in this time is of 2026-11-27 06:15:00 UTC." in answer.stderr


@pytest.mark.parametrize(("since", "number"), [("1d", 4), ("31m", 1), ("2026-11-27T06:40", 1), ("2026-11-27T07:00", 0)])
def test_the_time_is_a_duration_or_a_date(tenon: History, record: str, since: str, number: int) -> None:
    assert len(kinds(tenon("--since", since, "--record", record, "-o", "json"))) == number


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        ((), 2, "Which history? Name a record with --record, or a cluster"),
        (("--since", "soon"), 2, "'soon' is no time: write 12h, 30d"),
        (("--since", "1d", "--until", "2d", "--record", "RECORD"), 2, "has no time in the past"),
        (("--since", "2030-01-01", "--record", "RECORD"), 2, "The time from 2030-01-01 00:00:00 UTC to "),
        (("--record", "/none/record.jsonl"), 2, "The record /none/record.jsonl cannot be read: No such file"),
        (("nobody", "--record", "RECORD"), 1, "Nothing about nobody is known since"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_sentence(
    tenon: History, record: str, arguments: tuple[str, ...], status: int, sentence: str
) -> None:
    answer = tenon(*(record if argument == "RECORD" else argument for argument in arguments))
    assert (answer.exit_code, answer.stdout) == (status, "")
    assert sentence in answer.stderr


@pytest.mark.integration
async def test_a_command_is_read_from_temporal_and_appears_once_if_it_is_recorded_too(
    temporal: WorkflowEnvironment, cluster: str, tenon: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    steps, memory = FakeSteps(), KeptRecord()
    steps.savings = {"default": MeasuredSaving(predicted=0.2, reached=0.15)}
    explained = evolve(command(), explanation=["2 nodes become 1"])
    queue = names.task_queue(cluster)
    common = Worker(
        temporal.client,
        task_queue=queue,
        workflows=[DisruptionCommandWorkflow],
        activities=steps.common(),
        interceptors=[RecordInterceptor(memory)],
    )
    planner = Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[steps.validate, steps.measure])
    async with common, planner:
        await temporal.client.execute_workflow(
            DisruptionCommandWorkflow.run,
            DisruptInput(cluster=cluster, command=explained),
            id=names.command_id(cluster, explained.id),
            task_queue=queue,
            search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, cluster)]),
        )
    path = tmp_path / "record.jsonl"
    path.write_text("".join(f"{line_of(entry)}\n" for entry in memory.entries))
    arguments = (explained.id, "--cluster", cluster, "--since", "2020-01-01", "--until", "2100-01-01", "-o", "json")

    async def is_listed() -> bool:
        """Temporal lists workflows, and that they ended, a moment later."""
        answer = await asyncio.to_thread(tenon, *arguments)
        return answer.exit_code == 0 and len(json.loads(answer.stdout)) == 2

    await until(is_listed)
    alone = await asyncio.to_thread(tenon, *arguments)
    merged = await asyncio.to_thread(tenon, *arguments, "--record", str(path))
    assert kinds(alone) == kinds(merged) == ["command", "command-end"]
    begin, end = json.loads(alone.stdout)
    assert (begin["why"], end["reached"]) == ("2 nodes become 1", 0.15)
    assert [row["id"] for row in json.loads(alone.stdout)] == [entry.id for entry in memory.entries]
    assert "No record is read" in alone.stderr
