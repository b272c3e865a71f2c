"""The record of one process: makes entries where they happen, and hands them to each sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from activities import loggers
from activities.record.writer import RecordWriter
from tenon.record.entries import Entry
from worker.log_rate_limit import LogRateLimiter
from worker.record.channel import Channel, Sink
from worker.record.file_sink import FileSink
from worker.record.s3_sink import S3Sink
from worker.record.stdout_sink import StdoutSink
from worker.settings.record_sinks import FILE, OTLP, S3, STDOUT, RecordSink, parse_record_sinks

log = loggers.RECORD

FLUSH_SECONDS = 10.0
"""How long a process that stops waits until what it recorded is written."""


class Record(RecordWriter):
    """Hands entries to sinks."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._channels = [Channel(sink) for sink in sinks]
        self._log_limiter = LogRateLimiter()

    def write(self, make: Callable[[], Entry]) -> None:
        """Make an entry and queue it for each sink. It never raises, and waits for no sink."""
        if not self._channels:
            return
        try:
            entry = make()
        except Exception as error:  # an entry that cannot be made must not fail a launch
            if self._log_limiter.count(str(error)) is not None:
                log.error("An entry of the record cannot be made", exc_info=error)
            return
        for channel in self._channels:
            channel.put(entry)

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """Write what waits, for so many seconds at most. No entry is taken any more."""
        until = time.monotonic() + seconds
        for channel in self._channels:
            channel.stop()
        for channel in self._channels:
            channel.join(until - time.monotonic())


def open_record(setting: str, *, process: str, cluster: str, region: str) -> Record:
    """Open the sinks that RECORD_SINKS names. None of them is tried before the first entry."""
    return Record([_sink(place, process, cluster, region) for place in parse_record_sinks(setting)])


def _sink(place: RecordSink, process: str, cluster: str, region: str) -> Sink:
    if place.kind == STDOUT:
        return StdoutSink(process)
    if place.kind == FILE:
        return FileSink(place.path, size=place.megabytes * 1_000_000, files=place.files)
    if place.kind == S3:
        return S3Sink(place.bucket, place.prefix, region)
    if place.kind == OTLP:
        from worker.record.otlp_sink import OtlpSink  # OpenTelemetry takes about 8 MiB

        return OtlpSink(process, cluster)
    raise ValueError(f"no sink is called {place.kind}")
