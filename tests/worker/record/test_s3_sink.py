"""The record in an S3 bucket."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from moto.server import ThreadedMotoServer

from tenon.record.lines import entry_of
from tests.worker.record.entries import AT, launch, removal
from worker.record.channel import SinkError
from worker.record.s3_sink import S3Sink, s3_client

pytestmark = pytest.mark.integration
REGION: Final = "us-west-2"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket on a server of its own. All servers of a process have the same buckets, so each name is new."""
    name = f"archive-{uuid.uuid4().hex[:8]}"
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    s3_client(REGION).create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    try:
        yield name
    finally:
        server.stop()


def keys(bucket: str) -> list[str]:
    return [item["Key"] for item in s3_client(REGION).list_objects_v2(Bucket=bucket).get("Contents", [])]


def content(bucket: str, key: str) -> list[str]:
    body = s3_client(REGION).get_object(Bucket=bucket, Key=key)["Body"].read()
    return [entry_of(line).id for line in gzip.decompress(body).splitlines()]


def test_entries_of_one_hour_are_one_object_in_the_folder_of_that_hour(bucket: str) -> None:
    S3Sink(bucket, "tenon/record", REGION).write([launch(1), removal(1, at=AT + timedelta(minutes=1))])
    (key,) = keys(bucket)
    assert key.startswith("tenon/record/prod/2026/11/27/06/20261127T061500-")
    assert key.endswith(".jsonl.gz")
    assert content(bucket, key) == [launch(1).id, removal(1).id]


def test_entries_of_other_hours_and_clusters_are_other_objects_and_keys_are_in_order(bucket: str) -> None:
    """After an outage, a batch may hold entries of several hours."""
    late = datetime(2026, 11, 27, 7, 0, tzinfo=UTC)
    S3Sink(bucket, "", REGION).write([launch(2, at=late), launch(1), launch(3, cluster="team/a")])
    assert [key.rpartition("/")[0] for key in keys(bucket)] == [
        "prod/2026/11/27/06",
        "prod/2026/11/27/07",
        "team%2Fa/2026/11/27/06",
    ]


def test_a_batch_that_is_written_again_is_the_same_object(bucket: str) -> None:
    sink = S3Sink(bucket, "", REGION)
    sink.write([launch(1)])
    sink.write([launch(1)])
    assert len(keys(bucket)) == 1


def test_a_bucket_that_cannot_be_written_is_named_with_what_to_check(bucket: str) -> None:
    with pytest.raises(SinkError, match=r"s3://another/prod/.*NoSuchBucket.*s3:PutObject"):
        S3Sink("another", "", REGION).write([launch(1)])
