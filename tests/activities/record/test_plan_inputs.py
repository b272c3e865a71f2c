"""The inputs of plans are kept without harm to the plan."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from activities.record.documents import DocumentError
from activities.record.plan_inputs import CATALOGUE_SECONDS, MAX_WAITING, PlanInputStore
from tenon.provisioning import plan_document
from tests.tenon.scheduling.builders import CATALOG, pod, pool, problem


class Documents:
    """Keeps documents in memory, and counts how often each is written."""

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.writes: Counter[str] = Counter()
        self.fault: Exception | None = None
        self.open = threading.Event()
        self.open.set()

    def put(self, name: str, document: bytes) -> None:
        self.open.wait()
        if self.fault is not None:
            raise self.fault
        self.documents[name] = document
        self.writes[name.partition("/")[0]] += 1

    def get(self, name: str) -> bytes:
        if name not in self.documents:
            raise DocumentError(f"{name} does not exist")
        return self.documents[name]


async def test_what_is_kept_is_read_back() -> None:
    documents = Documents()
    kept_inputs = await PlanInputStore(documents).keep(problem([pod("a"), pod("b")], pool()))
    assert kept_inputs.lacking == ""
    value = PlanInputStore(documents).read(kept_inputs.digest)
    assert sorted(pod.key for pod in value.pods) == ["default/a", "default/b"]
    assert list(value.pools[0].instance_types) == CATALOG


async def test_plans_share_their_catalogue_which_is_written_again_each_day() -> None:
    """A bucket may delete what is old, although it is in use."""
    documents, seconds = Documents(), 0.0
    store = PlanInputStore(documents, lambda: seconds)
    for name in ("a", "b", "c"):
        await store.keep(problem([pod(name)], pool()))
    assert documents.writes == {"plans": 3, "catalogues": 1}
    seconds = CATALOGUE_SECONDS
    await store.keep(problem([pod("a")], pool()))
    assert documents.writes == {"plans": 4, "catalogues": 2}


@pytest.mark.parametrize("fault", [DocumentError("the disk is full"), RuntimeError("the disk is full")])
async def test_a_store_that_fails_is_why_they_lack(fault: Exception) -> None:
    documents = Documents()
    documents.fault = fault
    store = PlanInputStore(documents)
    kept_inputs = await store.keep(problem([pod("a")], pool()))
    assert kept_inputs.digest == ""
    assert "could not be kept" in kept_inputs.lacking
    assert "the disk is full" in kept_inputs.lacking
    documents.fault = None
    assert (await store.keep(problem([pod("a")], pool()))).digest


async def test_inputs_that_are_too_large_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_document, "MAX_PLAN", 10)
    documents = Documents()
    kept_inputs = await PlanInputStore(documents).keep(problem([pod("a")], pool()))
    assert "bytes, and at most 10 are kept" in kept_inputs.lacking
    assert documents.documents == {}


async def test_a_store_that_hangs_does_not_collect_problems() -> None:
    documents = Documents()
    store = PlanInputStore(documents)
    documents.open.clear()
    waiting = [asyncio.create_task(store.keep(problem([pod(str(n))], pool()))) for n in range(MAX_WAITING)]
    await asyncio.sleep(0)
    assert (await store.keep(problem([pod("x")], pool()))).lacking == "the store of earlier inputs is too slow"
    documents.open.set()
    assert "" not in [kept_inputs.digest for kept_inputs in await asyncio.gather(*waiting)]


async def test_a_process_that_stops_waits_for_its_last_plan_and_its_entry() -> None:
    documents, written = Documents(), []
    store = PlanInputStore(documents)
    documents.open.clear()

    async def keep_and_record() -> None:
        written.append((await store.keep(problem([pod("a")], pool()))).digest)

    task = asyncio.create_task(keep_and_record())
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    assert not closing.done()
    documents.open.set()
    await closing
    assert len(written) == 1
    await task


async def test_a_process_that_stops_does_not_wait_forever() -> None:
    documents = Documents()
    store = PlanInputStore(documents)
    documents.open.clear()
    task = asyncio.create_task(store.keep(problem([pod("a")], pool())))
    await asyncio.sleep(0)
    await store.close(seconds=0)
    assert not task.done()
    documents.open.set()
    await task
