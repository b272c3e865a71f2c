"""The record in files and on standard output."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from tenon.record.lines import entry_of
from tests.worker.record.entries import launch, refusal, removal
from worker.record import file_sink
from worker.record.file_sink import FileSink
from worker.record.stdout_sink import StdoutSink

SIZE = 2000


def ids(path: Path) -> list[str]:
    return [entry_of(line).id for line in path.read_bytes().splitlines()]


def test_a_file_and_its_folder_are_made_and_only_its_owner_and_group_read_it(tmp_path: Path) -> None:
    path = tmp_path / "var" / "record.jsonl"
    FileSink(str(path), size=SIZE, files=3).write([launch(1), removal(1)])
    assert ids(path) == [launch(1).id, removal(1).id]
    assert path.stat().st_mode & 0o007 == 0


def test_a_file_is_rotated_at_its_size_and_only_so_many_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    sink = FileSink(str(path), size=SIZE, files=3)
    entries = [launch(number, why="x" * 500) for number in range(20)]
    for entry in entries:
        sink.write([entry])
    files = [path, tmp_path / "record.jsonl.1", tmp_path / "record.jsonl.2"]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(file.stat().st_size <= SIZE for file in files)
    newest = [ident for file in reversed(files) for ident in ids(file)]
    assert newest == [entry.id for entry in entries[-len(newest) :]], "the newest, in order"


def test_a_rotation_with_one_file_begins_it_again(tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path / "record.jsonl"), size=10, files=1)
    sink.write([launch(1)])
    sink.write([launch(2)])
    assert ids(tmp_path / "record.jsonl") == [launch(2).id]


def test_two_writers_of_one_file_lose_nothing_and_mix_no_lines(tmp_path: Path) -> None:
    """The io process and the cluster process of a worker write the same file, and either may rotate it."""
    path = tmp_path / "record.jsonl"

    def writes(first: int) -> None:
        sink = FileSink(str(path), size=20_000, files=100)
        for number in range(first, first + 100):
            sink.write([launch(number, why="y" * 700)])

    threads = [threading.Thread(target=writes, args=(first,)) for first in (0, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    idents = {ident for file in tmp_path.iterdir() for ident in ids(file)}
    assert len(list(tmp_path.iterdir())) > 1
    assert idents == {launch(first + number).id for first in (0, 1000) for number in range(100)}


def test_a_line_that_comes_while_another_writer_rotates_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.jsonl"
    rotating, other = (FileSink(str(path), size=1_000, files=3) for _ in range(2))
    rotating.write([launch(1, why="y" * 700)])
    rename = Path.replace

    def rename_before_the_other_writes(source: Path, target: Path) -> Path:
        renamed = rename(source, target)
        other.write([launch(2)])
        return renamed

    monkeypatch.setattr(Path, "replace", rename_before_the_other_writes)
    rotating.write([launch(3, why="y" * 700)])
    assert {ident for file in tmp_path.iterdir() for ident in ids(file)} == {launch(n).id for n in (1, 2, 3)}


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record.jsonl"
    sink = FileSink(str(path), size=SIZE, files=3)
    sink.write([launch(1)])

    def half(descriptor: int, content: bytes) -> None:
        os.write(descriptor, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(file_sink, "write_all", half)
        with pytest.raises(OSError, match="No space"):
            sink.write([launch(2)])
    sink.write([launch(2)])
    assert ids(path) == [launch(1).id, launch(2).id]


def test_a_line_on_standard_output_is_a_line_of_the_log_and_an_entry() -> None:
    reads, writes = os.pipe()
    StdoutSink("io", writes).write([launch(1), refusal(1)])
    os.close(writes)
    with os.fdopen(reads, "rb") as stream:
        first, second = stream.read().splitlines()
    assert (entry_of(first), entry_of(second)) == (launch(1), refusal(1))
    shown = json.loads(first)
    assert (shown["level"], shown["logger"], shown["process"]) == ("INFO", "worker.record", "io")
    assert shown["message"] == "An instance was launched"
    assert json.loads(second)["message"] == "no capacity for m5.large"
