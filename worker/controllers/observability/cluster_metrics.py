"""Answers each scrape with what the cache shows of the cluster, while this replica leads.

A gauge for each node, pod and condition is computed when somebody asks for it, and not at each change. The parent of
the worker, which serves the port, asks on a socket in the worker's private folder. The snapshot is taken in the event
loop, and the text is made in a thread, in pieces, so that neither a scrape nor a slow reader delays anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from activities import loggers, metrics
from activities.in_progress import RECONCILES, SOLVES
from activities.metrics import TEXT_SOCKET_SUFFIX
from tenon.apis import labels
from tenon.kube.records import NodeRecord, ObjectRecord
from worker.cache.cluster import ClusterCache
from worker.cache.node_memo import NodeMemo
from worker.cache.state import ClusterState
from worker.controllers.observability.conditions import NodeTransitions, Transitions, condition_texts
from worker.controllers.observability.node_gauges import PodSums, node_texts
from worker.controllers.observability.pod_gauges import pod_texts
from worker.controllers.observability.pod_times import PodTimes
from worker.controllers.observability.summaries import Summary
from worker.controllers.observability.text_format import gauge_text, labeled

NAME = "clustermetrics"


class ClusterMetrics:
    """Serves the metrics of the cluster."""

    def __init__(self, cache: ClusterCache, folder: Path) -> None:
        """``folder``: that of the metrics of this worker."""
        self._cache = cache
        self._path = folder / f"{NAME}{TEXT_SOCKET_SUFFIX}"
        self._sums: NodeMemo[PodSums] = NodeMemo()
        self.pod_times = PodTimes(cache.clock)
        self._terminations = Summary(metrics.NODE_TERMINATION_SECONDS, cache.clock)

    async def run(self) -> None:
        """Serve until cancelled. Another replica that leads reports the same, so the socket goes at the end."""
        await self._cache.wait_synced()
        self._path.unlink(missing_ok=True)
        try:
            with self.observing():
                try:
                    server = await asyncio.start_unix_server(self._answer, self._path)
                except OSError as error:  # the path is too long, or the disk is full: a leader must go on without
                    extra = {"socket": str(self._path), "error": str(error)}
                    loggers.PROCESS.error("The leader serves no metrics of nodes and pods", extra=extra)
                    await asyncio.Event().wait()
                async with server:
                    await server.serve_forever()
        finally:
            self._path.unlink(missing_ok=True)
            self._sums = NodeMemo()

    @contextlib.contextmanager
    def observing(self) -> Iterator[None]:
        """Measure what changes in the cache, while the context is open."""
        cache = self._cache
        self.pod_times.begin(cache.pods)
        with contextlib.ExitStack() as stack:
            stack.enter_context(cache.pods.observed(self.pod_times.changed))
            stack.enter_context(cache.nodes.observed(self._node_changed))
            stack.enter_context(cache.nodes.observed(NodeTransitions(cache).changed))
            stack.enter_context(cache.claims.observed(Transitions("nodeclaim", cache.clock).changed))
            stack.enter_context(cache.pools.observed(Transitions("nodepool", cache.clock).changed))
            stack.enter_context(cache.nodeclasses.observed(Transitions("ec2nodeclass", cache.clock).changed))
            stack.enter_context(cache.buffers.observed(Transitions("capacitybuffer", cache.clock).changed))
            yield

    def texts(self) -> Iterator[str]:
        """All metrics as of now, in pieces. Call this in the event loop, and read the pieces anywhere."""
        now = self._cache.clock()
        snapshot = ClusterState(lambda: now)
        snapshot.adopt(self._cache)
        others: dict[str, Sequence[ObjectRecord]] = {
            "nodepool": list(self._cache.pools),
            "ec2nodeclass": list(self._cache.nodeclasses),
            "capacitybuffer": list(self._cache.buffers),
        }
        first = itertools.chain(self.pod_times.texts(now), [self._terminations.text()], _in_progress())
        return self._texts(first, snapshot, others, now)

    def _texts(
        self, first: Iterable[str], snapshot: ClusterState, others: Mapping[str, Sequence[ObjectRecord]], now: float
    ) -> Iterator[str]:
        yield from first
        yield from node_texts(snapshot, now, self._sums)
        yield from pod_texts(snapshot)
        yield from condition_texts("nodeclaim", snapshot.claims, now)
        yield from condition_texts("node", (node for node in snapshot.nodes if labels.NODEPOOL in node.labels), now)
        for kind, objects in others.items():
            yield from condition_texts(kind, objects, now)

    def _node_changed(self, _key: str, before: NodeRecord | None, after: NodeRecord | None) -> None:
        if before is None or after is not None or not before.deleted_at:
            return
        pool = before.labels.get(labels.NODEPOOL, "")
        if pool in self._cache.pools:
            self._terminations.observe(max(0.0, self._cache.clock() - before.deleted_at), pool)

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pieces, loop = self.texts(), asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError), ThreadPoolExecutor(1, thread_name_prefix="scrape") as thread:
            while piece := await loop.run_in_executor(thread, _next_piece, pieces):
                writer.write(piece)
                await writer.drain()
        writer.close()


def _in_progress() -> Iterator[str]:
    reconciles = [(labeled({"name": name, "controller": name}), took) for name, took in RECONCILES.seconds().items()]
    yield from gauge_text(metrics.UNFINISHED_WORK, reconciles)
    yield from gauge_text(metrics.LONGEST_WORK, reconciles)
    solves = [(f'controller="provisioner",scheduling_id="{name}"', took) for name, took in SOLVES.seconds().items()]
    yield from gauge_text(metrics.UNFINISHED_SOLVE, solves)


def _next_piece(pieces: Iterator[str]) -> bytes:
    return next(pieces, "").encode()
