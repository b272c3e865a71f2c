"""Entries on their way to a sink: never in the way of the work, never lost without a count."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest
from prometheus_client import REGISTRY

from activities import loggers
from tenon.record.entries import Entry
from tests.worker.record.entries import launch
from tests.workflows.waiting import until
from worker.record import channel
from worker.record.channel import Channel
from worker.record.record import Record


class FakeSink:
    """Keeps what it is given, unless it fails or is held up."""

    batch = 3

    def __init__(self, name: str, *, gathers_for: float = 0.0) -> None:
        self.name = name
        self.gathers_for = gathers_for
        self.batches: list[list[str]] = []
        self.failures: list[Exception] = []
        self.attempts = 0
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.began = threading.Event()
        self.closed = False

    @property
    def ids(self) -> list[str]:
        return [ident for batch in self.batches for ident in batch]

    def write(self, entries: Sequence[Entry]) -> None:
        self.attempts += 1
        self.began.set()
        self.goes_on.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append([entry.id for entry in entries])

    def close(self) -> None:
        self.closed = True


def counted(sink: str, result: str) -> float:
    return REGISTRY.get_sample_value("tenon_record_entries_total", {"sink": sink, "result": result}) or 0.0


def test_all_entries_are_written_in_order_before_a_process_ends() -> None:
    sink = FakeSink("in-order")
    record = Record([sink])
    entries = [launch(number) for number in range(10)]
    for entry in entries:
        record.write(lambda entry=entry: entry)  # type: ignore[misc]
    record.close()
    assert sink.ids == [entry.id for entry in entries]
    assert max(map(len, sink.batches)) <= sink.batch
    assert sink.closed
    assert counted("in-order", "written") == 10


def test_entries_gather_until_a_batch_is_full_or_the_process_ends() -> None:
    """S3 would otherwise get one object for each entry."""
    sink = FakeSink("gathers", gathers_for=3600)
    record = Record([sink])
    for number in range(4):
        record.write(lambda number=number: launch(number))  # type: ignore[misc]
    record.close()
    assert [len(batch) for batch in sink.batches] == [3, 1]


def test_a_sink_that_hangs_delays_neither_the_work_nor_another_sink() -> None:
    hanging, other = FakeSink("hangs"), FakeSink("other")
    hanging.goes_on.clear()
    record = Record([hanging, other])
    for number in range(5):
        record.write(lambda number=number: launch(number))  # type: ignore[misc]
    other_channel = record._channels[1]
    other_channel.stop()
    other_channel.join(30)
    assert len(other.ids) == 5
    record.close(seconds=0.0)  # what the hanging sink did not take is lost
    hanging.goes_on.set()


def test_what_a_full_queue_does_not_take_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    sink = FakeSink("full")
    sink.goes_on.clear()
    queue = Channel(sink, most=2)
    queue.put(launch(0))
    sink.began.wait(30)  # it is in the hands of the sink now
    with caplog.at_level(logging.ERROR, loggers.RECORD.name):
        for number in range(1, 6):
            queue.put(launch(number))
    assert counted("full", "lost") == 3
    (line,) = [line for line in caplog.records if line.message == "Entries of the record are lost"]
    assert vars(line)["sink"] == "full"
    sink.goes_on.set()
    queue.stop()
    queue.join(30)
    assert len(sink.ids) == 3


async def test_a_batch_that_fails_is_written_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channel, "PAUSES", (0.0,))
    sink = FakeSink("flaky")
    sink.failures = [OSError("the disk is full"), OSError("the disk is full")]
    queue = Channel(sink)
    queue.put(launch(1))

    async def written() -> bool:
        return sink.ids == [launch(1).id]

    await until(written)
    assert sink.attempts == 3
    assert counted("flaky", "lost") == 0
    own_lines = [line for line in caplog.records if line.name == loggers.RECORD.name]
    assert [vars(line)["error"] for line in own_lines] == ["the disk is full"], "once a minute"
    queue.stop()
    queue.join(30)


def test_what_a_sink_refuses_to_the_end_is_counted_as_lost() -> None:
    sink = FakeSink("refuses")
    sink.failures = [OSError("no")] * 5
    queue = Channel(sink)
    queue.put(launch(1))
    sink.began.wait(30)
    queue.stop()
    queue.join(30)
    assert not sink.ids
    assert counted("refuses", "lost") == 1


def test_an_entry_that_cannot_be_made_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    sink = FakeSink("made")

    def fails() -> Entry:
        raise ValueError("a text is too long")

    record = Record([sink])
    record.write(fails)
    record.write(lambda: launch(1))
    record.close()
    assert sink.ids == [launch(1).id]
    own_lines = [line.message for line in caplog.records if line.name == loggers.RECORD.name]
    assert own_lines == ["An entry of the record cannot be made"]


def test_without_sinks_no_entry_is_made() -> None:
    calls: list[int] = []

    def make() -> Entry:
        calls.append(1)
        return launch(1)

    record = Record([])
    record.write(make)
    record.close()
    assert not calls
