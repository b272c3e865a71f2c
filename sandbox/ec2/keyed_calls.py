"""Calls of the simulated kubelets to the API server, on threads: one at a time for each object."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from activities import loggers
from sandbox.ec2.kube import KubeError

log = loggers.SANDBOX_KUBELET
WORKERS = 8


class KeyedCalls:
    """Runs calls on threads."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="joiner")
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Wait for the calls that run, and start no other."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def do(self, key: str, work: Callable[[], Any]) -> None:
        """Run a call on the thread pool, one at a time for each key. Errors are logged, and the next check retries."""
        with self._lock:
            if key in self._busy:
                return
            self._busy.add(key)

        def guarded() -> None:
            try:
                work()
            except KubeError as error:
                if error.status not in (404, 409):
                    log.warning(
                        "The API server refused a call of the simulator", extra={"call": key, "error": str(error)}
                    )
            except Exception:
                log.exception("A call of the simulator failed", extra={"call": key})
            finally:
                with self._lock:
                    self._busy.discard(key)

        self._pool.submit(guarded)
