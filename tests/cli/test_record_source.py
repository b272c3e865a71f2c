"""The record as commands read it: from files, standard input and S3."""

from __future__ import annotations

import gzip
import io
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from moto.server import ThreadedMotoServer

from cli.record_source import RecordError, StreamSource, chosen_record, entries, open_record
from tenon.record.lines import MAX_LINE, line_of
from tests.worker.record.entries import AT, launch, removal
from worker.record.file_sink import FileSink
from worker.record.s3_sink import S3Sink, s3_client
from worker.record.stdout_sink import StdoutSink

HOUR = timedelta(hours=1)
REGION: Final = "us-west-2"


def test_a_file_is_read_with_those_that_were_rotated_the_oldest_first(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    sink = FileSink(str(path), size=1000, files=20)
    for number in range(30):
        sink.write([launch(number)])
    (tmp_path / "record.jsonl.bak").write_text(line_of(launch(99)))
    for record in (str(path), path.as_uri()):
        assert [entry.id for entry in entries(record)] == [launch(number).id for number in range(30)]


def test_only_entries_of_the_time_and_the_cluster_are_read_each_once(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    other = launch(1, at=AT, cluster="test")
    early, first, late = launch(2, at=AT - HOUR), launch(3, at=AT), launch(4, at=AT + HOUR)
    FileSink(str(path), size=10**6, files=2).write([early, first, first, other, late])
    assert list(entries(str(path), AT, AT + HOUR, "prod")) == [first]
    assert list(entries(str(path), AT)) == [first, other, late]


def test_what_is_no_entry_is_skipped(tmp_path: Path) -> None:
    """A worker's log on standard output has both, and `kubectl logs` may write something before each line."""
    path = tmp_path / "worker.log"
    with path.open("wb") as log:
        log.write(b'{"level": "INFO", "message": "The worker leads"}\nnot JSON\n')
        log.write(b"[pod/tenon-1/tenon] 2026-11-27T06:15:00Z " + line_of(launch(1)).encode() + b"\n")
        log.write(b'{"kind": "dream"}\n{"kind": "launch"' + b"x" * (MAX_LINE + 10) + b"\n")
        log.flush()
        StdoutSink("io", log.fileno()).write([removal(1)])
        log.write(line_of(launch(2)).encode())  # a last line without an end
    assert [entry.id for entry in entries(str(path))] == [launch(1).id, removal(1).id, launch(2).id]


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl.gz"
    path.write_bytes(gzip.compress(line_of(launch(1)).encode()))
    assert list(entries(str(path))) == [launch(1)]


def test_standard_input_can_be_read_twice() -> None:
    """The history of a node first looks for its other names."""
    source = StreamSource(stream=io.BytesIO(f"noise\n{line_of(launch(1))}\n{line_of(removal(1))}".encode()))
    assert list(source.entries()) == list(source.entries()) == [launch(1), removal(1)]


@pytest.mark.parametrize(
    ("option", "variable", "record"),
    [
        (None, "", ""),
        (None, "/record.jsonl", "/record.jsonl"),
        ("-", "/record.jsonl", "-"),
        ("stdout,s3://archive/tenon,otlp", "", "s3://archive/tenon"),
        ("stdout", "", ""),
    ],
)
def test_the_setting_of_a_worker_names_a_record_too(
    option: str | None, variable: str, record: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENON_RECORD", variable)
    assert chosen_record(option) == record


@pytest.mark.parametrize("record", ["https://example.com/record", "otlp://x", "s3://A_B/x"])
def test_what_is_no_record_is_refused(record: str) -> None:
    with pytest.raises(RecordError, match="name a file, s3://"):
        open_record(record)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.jsonl cannot be read: No such file"):
        list(entries(str(tmp_path / "none.jsonl")))


WHOLE = gzip.compress(line_of(launch(1)).encode())


@pytest.mark.parametrize("content", [WHOLE[:-9], b"not gzip", WHOLE[:20] + b"\xff" * 20], ids=["cut", "text", "noise"])
def test_a_damaged_compressed_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "record.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"^The record /.*record\.jsonl\.gz cannot be read: .*[^.]\.$"):
        list(entries(str(path)))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket on a server of its own. All servers of a process have the same buckets, so each name is new."""
    name = f"archive-{uuid.uuid4().hex[:8]}"
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    s3_client(REGION).create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    try:
        yield name
    finally:
        server.stop()


@pytest.mark.integration
def test_only_the_objects_of_the_time_are_read_from_a_bucket(bucket: str) -> None:
    sink = S3Sink(bucket, "tenon", REGION)
    all_entries = [launch(number, at=AT + number * HOUR) for number in range(60)]
    for entry in all_entries:
        sink.write([entry])
    sink.write([launch(1, cluster="test")])
    broken = "tenon/prod/2026/11/27/05/20261127T050000-broken.jsonl.gz"
    s3_client(REGION).put_object(Bucket=bucket, Key=broken, Body=b"not gzip")  # to read it would fail
    record = f"s3://{bucket}/tenon"
    assert list(entries(record, AT, AT + 3 * HOUR, "prod")) == all_entries[:3]
    assert list(entries(record, AT, cluster="prod")) == all_entries
    assert len(list(entries(record, AT))) == 61, "all clusters"


@pytest.mark.integration
def test_a_bucket_that_cannot_be_read_is_named_with_what_to_check(bucket: str) -> None:
    with pytest.raises(RecordError, match=r"s3://nowhere-at-all/x cannot be read \(.*NoSuchBucket"):
        list(entries("s3://nowhere-at-all/x", cluster="prod"))


@pytest.mark.integration
def test_a_damaged_object_of_a_bucket_is_named(bucket: str) -> None:
    key = "tenon/prod/2026/11/27/05/20261127T050000-broken.jsonl.gz"
    for content in (WHOLE[:-9], b"not gzip"):
        s3_client(REGION).put_object(Bucket=bucket, Key=key, Body=content)
        with pytest.raises(RecordError, match=rf"^The record s3://{bucket}/{key} cannot be read: "):
            list(entries(f"s3://{bucket}/tenon", cluster="prod"))
