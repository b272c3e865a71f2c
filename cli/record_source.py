"""Reads the record for commands: from a file and those rotated out of it, an S3 bucket, or standard input.

Entries are read one by one, so a record of any size fits. Lines that are no entries are skipped: a worker's log on
standard output has both.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Protocol

import typer

from tenon.errors import TenonError
from tenon.record.entries import Entry
from tenon.record.lines import MAX_LINE, UnreadableLineError, distinct, entry_of
from worker.settings.record_sinks import FILE, S3, RecordSink, parse_record_sink

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

VARIABLE = "TENON_RECORD"
STANDARD_INPUT = "-"
RecordOption = Annotated[
    str | None,
    typer.Option(
        "--record",
        metavar="URL",
        envvar=[VARIABLE, "RECORD_SINKS"],
        help="Where the record is: a file, s3://BUCKET/PREFIX, or - for standard input.",
    ),
]
_AFTER_YEARS = ":"
"""What sorts after the digits of all years, and before the inputs of plans, which are no entries."""
AT_ONCE = 16
"""How many objects of S3 are read at the same time."""


class RecordError(TenonError):
    """The record cannot be read. The message is one sentence."""


class _Lines(Protocol):
    """A stream of bytes: a file, also a compressed one, or standard input."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, or its first ``size`` bytes; nothing at the end."""
        ...


class RecordSource(Protocol):
    """Where the record is. It can be read more than once."""

    def entries(self, since: datetime | None = None, until: datetime | None = None) -> Iterator[Entry]:
        """Yield the entries of this time, about in order; each once.

        Raises:
            RecordError: the record cannot be read.
        """
        ...


def entries(
    record: str, since: datetime | None = None, until: datetime | None = None, cluster: str = ""
) -> Iterator[Entry]:
    """Yield the entries of a record that happened in this time, about in order; each once.

    Args:
        record: as for `open_record`.
        since: the earliest time; None for all.
        until: the end of the time, which does not belong to it; None for all.
        cluster: only entries of this cluster; empty for all.

    Raises:
        RecordError: the record cannot be read.
    """
    return open_record(record, cluster).entries(since, until)


def chosen_record(option: str | None) -> str:
    """Return which record a command reads: that of its option, or of the sandbox in this folder; empty for none.

    The setting of a worker may be given too. Then it is the first of its sinks that can be read.
    """
    text = option or os.environ.get(VARIABLE, "")
    parts = [part.strip() for part in text.split(",")]
    readable = [part for part in parts if part not in ("stdout", "otlp", "none", "")]
    return readable[0] if readable else ""


def open_record(record: str, cluster: str = "") -> RecordSource:
    """Return the source of a record.

    Args:
        record: ``-`` for standard input, a path, or a ``file://`` or ``s3://`` address as in the setting of a worker.
        cluster: only entries of this cluster; empty for all.

    Raises:
        RecordError: it is none of these.
    """
    if record == STANDARD_INPUT:
        return StreamSource(cluster)
    if "://" not in record:
        return FileSource(Path(record), cluster)
    try:
        place = parse_record_sink(record)
    except ValueError:
        place = RecordSink("")
    if place.kind == FILE:
        return FileSource(Path(place.path), cluster)
    if place.kind == S3:
        return S3Source(place.bucket, place.prefix, cluster)
    raise RecordError(
        f"No record can be read from {record!r}: name a file, s3://BUCKET/PREFIX, or - for standard input."
    )


@dataclass
class StreamSource:
    """Reads standard input. What was read is kept in a temporary file, to be read again."""

    cluster: str = ""
    stream: IO[bytes] | None = None
    _copy: IO[bytes] | None = field(default=None, init=False)

    def entries(self, since: datetime | None = None, until: datetime | None = None) -> Iterator[Entry]:
        """Yield the entries."""
        if self._copy is None:
            self._copy = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this source
            for line in _lines(self.stream or sys.stdin.buffer):
                if b'"kind":' in line:
                    self._copy.write(line if line.endswith(b"\n") else line + b"\n")
        self._copy.seek(0)
        yield from _selected(_parsed(_lines(self._copy)), since, until, self.cluster)


@dataclass(frozen=True)
class FileSource:
    """Reads a file and those that were rotated out of it, the oldest first."""

    path: Path
    cluster: str = ""

    def entries(self, since: datetime | None = None, until: datetime | None = None) -> Iterator[Entry]:
        """Yield the entries."""
        return _selected(self._all(since), since, until, self.cluster)

    def _all(self, since: datetime | None) -> Iterator[Entry]:
        with ExitStack() as opened:
            try:  # all of them are opened first, because a worker may rotate them meanwhile
                streams = [(path, opened.enter_context(_opened(path))) for path in self._paths(since)]
            except OSError as error:
                raise RecordError(f"The record {error.filename} cannot be read: {error.strerror}.") from None
            for path, stream in streams:
                yield from _parsed(_whole_lines(stream, str(path)))

    def _paths(self, since: datetime | None) -> list[Path]:
        """The file last. Rotated files that end before the time are left out."""
        numbered = {
            int(suffix): path
            for path in self.path.parent.glob(f"{self.path.name}.*")
            if (suffix := path.name.removeprefix(f"{self.path.name}.")).isdecimal()
        }
        rotated_files = [numbered[number] for number in sorted(numbered, reverse=True)]
        earliest = since.timestamp() if since is not None else 0.0
        return [*(path for path in rotated_files if path.stat().st_mtime >= earliest), self.path]


@dataclass(frozen=True)
class S3Source:
    """Reads the objects of the time from a bucket."""

    bucket: str
    prefix: str
    cluster: str = ""

    def entries(self, since: datetime | None = None, until: datetime | None = None) -> Iterator[Entry]:
        """Yield the entries, cluster by cluster."""
        return _selected(self._all(since, until), since, until, self.cluster)

    def _all(self, since: datetime | None, until: datetime | None) -> Iterator[Entry]:
        from botocore.exceptions import BotoCoreError, ClientError  # only those who use S3 need boto3

        from worker.record.s3_sink import folder, hour_of, s3_client

        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
        try:
            client = s3_client(region)
            folders = [folder(self.prefix, self.cluster)] if self.cluster else self._clusters(client)
            for start in folders:
                first = start + (hour_of(since) if since is not None else "")
                last = start + (f"{hour_of(until)}~" if until is not None else _AFTER_YEARS)
                keys = self._keys(client, start, first, last)
                for key, content in _ahead(keys, lambda key: self._read(client, key)):
                    stream = gzip.GzipFile(fileobj=io.BytesIO(content))
                    yield from _parsed(_whole_lines(stream, f"s3://{self.bucket}/{key}"))
        except (ClientError, BotoCoreError) as error:
            raise RecordError(
                f"The record s3://{self.bucket}/{self.prefix} cannot be read ({error}): check that the bucket exists, "
                "and that you may list it and get its objects."
            ) from None

    def _clusters(self, client: S3Client) -> list[str]:
        """The folder of each cluster."""
        start = f"{self.prefix}/" if self.prefix else ""
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=start, Delimiter="/")
        return [part["Prefix"] for page in pages for part in page.get("CommonPrefixes", [])]

    def _keys(self, client: S3Client, start: str, first: str, last: str) -> Iterator[str]:
        """The keys from one to another, which are in the order of time."""
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=start, StartAfter=first, PaginationConfig={"PageSize": 1000}
        )
        for page in pages:
            for item in page.get("Contents", []):
                if item["Key"] > last:
                    return
                yield item["Key"]

    def _read(self, client: S3Client, key: str) -> bytes:
        return client.get_object(Bucket=self.bucket, Key=key)["Body"].read()


def _ahead(keys: Iterator[str], read: Callable[[str], bytes]) -> Iterator[tuple[str, bytes]]:
    """Read what the keys name, a few ahead of who takes them, in their order."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="record") as readers:
        waiting: deque[tuple[str, Future[bytes]]] = deque()
        for key in keys:
            waiting.append((key, readers.submit(read, key)))
            if len(waiting) >= 2 * AT_ONCE:
                first, content = waiting.popleft()
                yield first, content.result()
        while waiting:
            first, content = waiting.popleft()
            yield first, content.result()


def _opened(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _lines(stream: _Lines) -> Iterator[bytes]:
    """The lines of a stream, without those that are too long for an entry."""
    while line := stream.readline(MAX_LINE + 1):
        if len(line) <= MAX_LINE:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE)


def _whole_lines(stream: _Lines, name: str) -> Iterator[bytes]:
    """The lines of a stream.

    Raises:
        RecordError: it is cut off, damaged, or not compressed as its name says.
    """
    try:
        yield from _lines(stream)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordError(f"The record {name} cannot be read: {error}.") from None


def _parsed(lines: Iterator[bytes]) -> Iterator[Entry]:
    for line in lines:
        begin = line.find(b"{")  # `kubectl logs --prefix` and `--timestamps` write something before it
        if begin < 0 or b'"kind":' not in line:
            continue
        try:
            yield entry_of(line[begin:])
        except UnreadableLineError:
            continue


def _selected(
    read_entries: Iterator[Entry], since: datetime | None, until: datetime | None, cluster: str
) -> Iterator[Entry]:
    for entry in distinct(read_entries):
        at = entry.at if entry.at.tzinfo is not None else entry.at.replace(tzinfo=UTC)
        is_in_time = (since is None or at >= since) and (until is None or at < until)
        if is_in_time and (not cluster or entry.cluster == cluster):
            yield entry
