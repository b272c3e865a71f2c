"""Another worker in place of the one that the tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.worker_process import WorkerProcess


@contextmanager
def in_place_of(worker: WorkerProcess, other: WorkerProcess) -> Iterator[None]:
    """Run another worker, and the usual one again afterwards: later tests need that one, whatever failed here."""
    stopped = worker.stop()
    try:
        assert stopped == 0, f"see {worker.log}"
        other.start()
        yield
        stopped = other.stop()
    finally:
        if other.running:
            other.stop()
        worker.start()
    assert stopped == 0, f"see {other.log}"
