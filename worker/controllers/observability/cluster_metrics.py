"""Answers each scrape with what the cache shows of the cluster, while this replica leads.

A gauge for each node, pod and condition is computed when somebody asks for it, and not at each change. The parent of
the worker, which serves the port, asks on a socket in the worker's private folder. The snapshot is taken in the event
loop, and the text is made in a thread, in pieces, so that neither a scrape nor a slow reader delays anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from activities.metrics import TEXT_SOCKET_SUFFIX
from worker.cache.cluster import ClusterCache
from worker.cache.node_memo import NodeMemo
from worker.cache.state import ClusterState
from worker.controllers.observability.node_gauges import PodSums, node_texts
from worker.controllers.observability.pod_gauges import pod_texts

NAME = "clustermetrics"


class ClusterMetrics:
    """Serves the metrics of the cluster."""

    name = NAME

    def __init__(self, cache: ClusterCache, folder: Path) -> None:
        """``folder``: that of the metrics of this worker."""
        self._cache = cache
        self._path = folder / f"{NAME}{TEXT_SOCKET_SUFFIX}"
        self._sums: NodeMemo[PodSums] = NodeMemo()

    async def run(self) -> None:
        """Serve until cancelled. Another replica that leads reports the same, so the socket goes at the end."""
        await self._cache.wait_synced()
        self._path.unlink(missing_ok=True)
        try:
            async with await asyncio.start_unix_server(self._answer, self._path) as server:
                await server.serve_forever()
        finally:
            self._path.unlink(missing_ok=True)
            self._sums = NodeMemo()

    def texts(self) -> Iterator[str]:
        """All metrics as of now, in pieces. Call this in the event loop, and read the pieces anywhere."""
        now = self._cache.clock()
        snapshot = ClusterState(lambda: now)
        snapshot.adopt(self._cache)
        return self._texts(snapshot, now)

    def _texts(self, snapshot: ClusterState, now: float) -> Iterator[str]:
        yield from node_texts(snapshot, now, self._sums)
        yield from pod_texts(snapshot)

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pieces, loop = self.texts(), asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError), ThreadPoolExecutor(1, thread_name_prefix="scrape") as thread:
            while piece := await loop.run_in_executor(thread, _next_piece, pieces):
                writer.write(piece)
                await writer.drain()
        writer.close()


def _next_piece(pieces: Iterator[str]) -> bytes:
    return next(pieces, "").encode()
