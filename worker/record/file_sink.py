"""Appends entries to a file, which is rotated at a size. Both processes of a worker may write the same file.

A lock on the file keeps their lines apart, and lets only one of them rotate it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tenon.record.entries import Entry
from tenon.record.lines import line_of
from worker.record.stdout_sink import write_all


class FileSink:
    """Appends to one file, and keeps the last ``files`` of them: the newest rotated one has the suffix ``.1``."""

    name = "file"
    batch = 100
    gathers_for = 0.0

    def __init__(self, path: str, *, size: int, files: int) -> None:
        """``size``: bytes from which on the file is rotated."""
        self._path = Path(path)
        self._size = size
        self._files = files

    def write(self, entries: Sequence[Entry]) -> None:
        """Append all entries. They are read by no one else on this machine than the worker's own user and group.

        Raises:
            OSError: the file cannot be written.
        """
        content = "".join(f"{line_of(entry)}\n" for entry in entries).encode()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as descriptor:
            before = os.fstat(descriptor).st_size
            if before and before + len(content) > self._size:
                self._rotate()
                with self._locked() as fresh:
                    self._append(fresh, content)
            else:
                self._append(descriptor, content)

    def close(self) -> None:
        """Do nothing: the file is opened for each batch, so that another process may rotate it."""

    @staticmethod
    def _append(descriptor: int, content: bytes) -> None:
        before = os.fstat(descriptor).st_size
        try:
            write_all(descriptor, content)
        except OSError:  # a full disk: half a line would spoil the next one, and the batch is written again
            os.ftruncate(descriptor, before)
            raise

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file that has the path, and hold its lock."""
        while True:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if self._is_current(descriptor):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        """Whether no one has rotated the file since it was opened."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        for number in range(self._files - 1, 0, -1):
            source = self._path if number == 1 else rotated(self._path, number - 1)
            if source.exists():
                source.replace(rotated(self._path, number))
        if self._files == 1:  # otherwise the path is another writer's new file by now
            self._path.unlink()


def rotated(path: Path, number: int) -> Path:
    """Return the path of the rotated file with this number; 1 is the newest."""
    return path.with_name(f"{path.name}.{number}")
