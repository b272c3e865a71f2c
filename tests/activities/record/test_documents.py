"""Where the inputs of plans are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from activities.record.documents import BucketStore, DocumentError, DocumentStore, FolderStore
from tests.moto_account import moto_account


@pytest.fixture
def bucket() -> Iterator[BucketStore]:
    with moto_account():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="archive")
        yield BucketStore(lambda: client, "archive", "tenon/inputs/")


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> DocumentStore:
    if request.param == "folder":
        return FolderStore(tmp_path / "inputs")
    store: BucketStore = request.getfixturevalue("bucket")
    return store


def test_a_document_is_read_back_and_may_be_written_twice(store: DocumentStore) -> None:
    store.put("plans/ab/abc", b"content")
    store.put("plans/ab/abc", b"content")
    assert store.get("plans/ab/abc") == b"content"


def test_a_document_that_is_gone_is_named(store: DocumentStore) -> None:
    with pytest.raises(DocumentError, match="plans/ab/abc does not exist"):
        store.get("plans/ab/abc")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "inputs").write_text("a file, and no folder")
    with pytest.raises(DocumentError, match=r"inputs/plans/a cannot be written: Not a directory"):
        FolderStore(tmp_path / "inputs").put("plans/a", b"content")


def test_a_bucket_that_does_not_exist_is_named(bucket: BucketStore) -> None:
    other = BucketStore(lambda: boto3.client("s3", region_name="us-east-1"), "missing", "inputs/")
    with pytest.raises(DocumentError, match=r"s3://missing/inputs/plans/a cannot be written: .*NoSuchBucket"):
        other.put("plans/a", b"content")


def test_a_full_folder_loses_what_was_used_longest_ago(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, most_bytes=1000)
    for number in range(9):
        store.put(f"plans/{number}", bytes(100))
        os.utime(tmp_path / f"plans/{number}", (number, number))
    store.put("plans/0", bytes(100))  # it is in use again
    store.put("plans/9", bytes(100))
    store.put("plans/10", bytes(100))
    names = {path.name for path in (tmp_path / "plans").iterdir()}
    assert names == {"0", "3", "4", "5", "6", "7", "8", "9", "10"}


def test_a_new_process_counts_what_an_earlier_one_wrote(tmp_path: Path) -> None:
    for number in range(20):
        FolderStore(tmp_path, most_bytes=1000).put(f"plans/{number}", bytes(100))
    assert sum(path.stat().st_size for path in (tmp_path / "plans").iterdir()) <= 1000


def test_what_a_writer_left_unfinished_counts_and_is_deleted(tmp_path: Path) -> None:
    partial = tmp_path / "plans" / ".partial-1"
    partial.parent.mkdir()
    partial.write_bytes(bytes(900))
    os.utime(partial, (1, 1))
    FolderStore(tmp_path, most_bytes=500).put("plans/1", bytes(100))
    assert [path.name for path in partial.parent.iterdir()] == ["1"]
