"""The setting that says where the record goes."""

from __future__ import annotations

import pytest

from worker.settings import Settings
from worker.settings.record_sinks import FILE, OTLP, S3, STDOUT, RecordSink, parse_record_sinks


@pytest.mark.parametrize(
    ("text", "sinks"),
    [
        ("none", []),
        ("stdout", [RecordSink(STDOUT)]),
        ("stdout, otlp", [RecordSink(STDOUT), RecordSink(OTLP)]),
        ("file:///var/log/record.jsonl", [RecordSink(FILE, path="/var/log/record.jsonl")]),
        ("file:///a%20b?megabytes=5&files=2", [RecordSink(FILE, path="/a b", megabytes=5, files=2)]),
        ("s3://archive", [RecordSink(S3, bucket="archive")]),
        ("s3://archive/tenon/prod/", [RecordSink(S3, bucket="archive", prefix="tenon/prod")]),
    ],
)
def test_a_list_of_sinks_is_read(text: str, sinks: list[RecordSink]) -> None:
    assert parse_record_sinks(text) == sinks


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "write stdout"),
        ("stdout,", "write stdout"),
        ("stdout,none", "'none'"),
        ("/var/log/record.jsonl", "file:///var"),
        ("file://var/log/record.jsonl", "file:///var"),
        ("file:///var/log/", "file:///var"),
        ("file:///r?megabytes=0", "megabytes=1 to"),
        ("file:///r?days=3", "files=1 to"),
        ("s3://A_B/x", "s3://BUCKET"),
        ("s3://key:secret@archive/x", "s3://BUCKET"),
        ("https://example.com", "otlp"),
    ],
)
def test_what_is_no_sink_is_refused_with_what_to_write(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        parse_record_sinks(text)


def test_the_record_goes_to_standard_output_unless_the_operator_says_otherwise() -> None:
    """It needs no right and no volume there, and what ships the log ships the record."""
    assert Settings(cluster_name="c").record_sinks == STDOUT
