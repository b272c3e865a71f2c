"""The reflector against an API server that forgets, repeats, breaks off and refuses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import looptime
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.kubernetes.errors import ApiError, ApiUnreachableError, ForbiddenError, TooManyRequestsError
from activities.kubernetes.resources import NODECLAIMS
from tenon.kube.decode import decode_object
from tenon.kube.records import ObjectRecord
from tests.activities.kubernetes.fake_api import FakeApi, http_handler, serve
from worker.cache.reflector import JitteredBackoff, Reflector
from worker.cache.table import Table


class Copy:
    """A table, and the same content rebuilt from what its listener was told."""

    def __init__(self) -> None:
        self.table: Table[ObjectRecord] = Table(self.changed)
        self.events: dict[str, str] = {}
        self.news: list[tuple[str, str | None]] = []
        self.arrived = asyncio.Event()

    def changed(self, key: str, before: ObjectRecord | None, after: ObjectRecord | None) -> None:
        assert (before.body["spec"]["value"] if before else None) == self.events.get(key)
        self.arrived.set()
        self.news.append((key, after.body["spec"]["value"] if after else None))
        if after is None:
            del self.events[key]
        else:
            self.events[key] = after.body["spec"]["value"]

    def content(self) -> dict[str, str]:
        return {record.key: record.body["spec"]["value"] for record in self.table}


def truth(api: FakeApi) -> dict[str, str]:
    return {name: obj["spec"]["value"] for name, obj in api.objects.items()}


def reflector(api: Any, copy: Copy, **options: Any) -> Reflector[ObjectRecord]:
    async def pause(_: float) -> None:
        await asyncio.sleep(0)

    options.setdefault("pause", pause)
    return Reflector(api, NODECLAIMS, decode_object, copy.table, chance=random.Random(1), **options)


async def until(met: Callable[[], bool], turns: int = 3000) -> None:
    for _ in range(turns):
        if met():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come about")


def run(main: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main)
    finally:
        loop.close()


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def virtually(main: Coroutine[Any, Any, None]) -> None:
    """Runs with a clock that jumps over waits."""
    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(main)
    finally:
        loop.close()


NAMES = st.sampled_from([f"c{number}" for number in range(5)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES),
        st.tuples(st.just("delete"), NAMES),
        st.sampled_from(
            [
                ("compact", ""),
                ("cut", ""),
                ("bookmark", ""),
                ("refuse", ""),
                ("slow", ""),
                ("expire", ""),
                ("look", ""),
                ("refresh", ""),
            ]
        ),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, watch_list=st.booleans(), repeat=st.booleans(), paged=st.booleans())
def test_any_interleaving_ends_with_what_the_server_holds(
    steps: list[tuple[str, str]], watch_list: bool, repeat: bool, paged: bool
) -> None:
    async def main() -> None:
        api, copy = FakeApi(watch_list=watch_list), Copy()
        api.repeat = repeat
        api.put("c0", "before")
        watching = reflector(api, copy, page_size=2 if paged else 500)
        task = asyncio.create_task(watching.run())
        requests: list[asyncio.Task[None]] = []
        for number, (step, name) in enumerate(steps):
            if step == "put":
                api.put(name, str(number))
            elif step == "delete":
                api.delete(name)
            elif step == "refuse":
                api.failures.append(TooManyRequestsError(429, "TooManyRequests", "slow down"))
            elif step == "refresh":
                requests.append(asyncio.create_task(watching.refresh()))
            elif step == "expire":
                api.expire_pages = 1
            elif step in ("slow", "look"):
                for _ in range(20 if step == "slow" else 2):
                    await asyncio.sleep(0)
            else:
                getattr(api, step)()
        await until(lambda: copy.content() == truth(api))
        assert copy.events == truth(api)
        await until(lambda: all(item.done() for item in requests))
        await stop(task)

    run(main())


def test_a_stalled_watch_is_restarted_from_the_last_version() -> None:
    """Nobody may see an old cluster for the five minutes that a watch lasts."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        api, copy = FakeApi(), Copy()
        api.put("a", "1")
        watching = reflector(api, copy, silence_limit=20.0, pause=asyncio.sleep)
        task = asyncio.create_task(watching.run())
        await watching.synced.wait()
        version = api.version
        api.stall()
        api.put("b", "1")
        began = loop.time()
        copy.arrived.clear()
        await copy.arrived.wait()
        assert loop.time() - began <= 22.0
        assert copy.content() == truth(api)
        assert api.requests[-1]["resourceVersion"] == str(version)
        await stop(task)

    virtually(main())


def test_where_watches_are_held_back_for_good_the_cache_still_follows() -> None:
    """Late, by lists; else the cluster process would wait for ever for pods that are there."""

    async def main() -> None:
        api, copy = FakeApi(), Copy()
        watching = reflector(api, copy, silence_limit=20.0, pause=asyncio.sleep)
        task = asyncio.create_task(watching.run())
        await watching.synced.wait()
        for number in range(5):
            api.stall(new_ones_too=True)
            api.put("a", str(number))
            copy.arrived.clear()
            async with asyncio.timeout(45):
                await copy.arrived.wait()
            assert copy.content() == truth(api)
        await stop(task)

    virtually(main())


def test_bookmarks_are_a_sign_of_life_and_quiet_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        api, copy = FakeApi(), Copy()
        watching = reflector(api, copy, silence_limit=20.0, pause=asyncio.sleep)
        task = asyncio.create_task(watching.run())
        await watching.synced.wait()
        for _ in range(20):
            await asyncio.sleep(15)
            api.bookmark()
        assert watching.silent_for() <= 20
        assert len(api.requests) == 1, "one watch, from the beginning"
        await asyncio.sleep(200)
        assert 8 <= len(api.requests) <= 16, "asked again about as often as the limit says, never in a rush"
        await stop(task)

    virtually(main())
    assert caplog.text == ""


@pytest.mark.parametrize("hold", [False, True])
async def test_a_refresh_shows_what_a_stalled_watch_holds_back(hold: bool) -> None:
    """Also where a proxy holds every watch back: lists pass."""
    api, copy = FakeApi(), Copy()
    api.put("a", "1")
    watching = reflector(api, copy)
    task = asyncio.create_task(watching.run())
    await until(watching.synced.is_set)
    for value in ("2", "3"):
        api.stall(new_ones_too=hold)
        api.put("a", value)
        api.put(f"b{value}", "1")
        await watching.refresh()
        assert copy.content() == truth(api)
    await stop(task)


def test_a_refresh_waits_out_an_outage_and_forgets_no_waiter() -> None:
    async def main() -> None:
        api, copy = FakeApi(), Copy()
        watching = reflector(api, copy, pause=asyncio.sleep)
        task = asyncio.create_task(watching.run())
        await watching.synced.wait()
        api.failures += [ApiUnreachableError("https://x", "refused")] * 3
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await watching.refresh()
        api.put("a", "1")
        await asyncio.gather(watching.refresh(), watching.refresh())
        assert copy.content() == truth(api)
        await stop(task)

    virtually(main())


def test_watches_held_back_from_the_beginning_do_not_keep_the_cache_empty() -> None:
    async def main() -> None:
        api, copy = FakeApi(), Copy()
        api.put("a", "1")
        api.stall(new_ones_too=True)
        watching = reflector(api, copy, silence_limit=20.0, pause=asyncio.sleep)
        task = asyncio.create_task(watching.run())
        async with asyncio.timeout(30):
            await watching.synced.wait()
        assert copy.content() == truth(api)
        await stop(task)

    virtually(main())


def test_an_outage_and_its_end_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        api, copy = FakeApi(), Copy()
        watching = reflector(api, copy, silence_limit=20.0, pause=asyncio.sleep)
        task = asyncio.create_task(watching.run())
        await watching.synced.wait()
        api.failures += [ApiUnreachableError("https://x", "refused")] * 8
        api.cut()
        await asyncio.sleep(600)
        await stop(task)

    caplog.set_level("INFO")
    virtually(main())
    messages = [(record.message, vars(record)["resource"], vars(record).get("error")) for record in caplog.records]
    why = "The Kubernetes API server at https://x cannot be reached: refused"
    assert messages == [
        ("The watch of a resource failed and is retried", "nodeclaims", why),
        ("The watch of a resource works again", "nodeclaims", None),
    ]


@pytest.mark.integration
@pytest.mark.parametrize("watch_list", [True, False])
async def test_over_http_it_lists_watches_and_survives_a_cut(watch_list: bool, tmp_path: Path) -> None:
    api, copy = FakeApi(watch_list=watch_list), Copy()
    for number in range(7):
        api.put(f"c{number}", "old")
    async with serve(http_handler(api), tmp_path) as kube:
        watching = reflector(kube, copy, page_size=3)
        task = asyncio.create_task(watching.run())
        async with asyncio.timeout(20):
            await watching.synced.wait()
            assert copy.content() == truth(api)
            api.put("c1", "new")
            api.cut()
            api.delete("c2")
            while copy.content() != truth(api):
                copy.arrived.clear()
                await copy.arrived.wait()
        await stop(task)


async def test_after_a_cut_the_watch_goes_on_where_it_ended() -> None:
    api, copy = FakeApi(), Copy()
    api.put("a", "1")
    task = asyncio.create_task(reflector(api, copy).run())
    await until(lambda: copy.content() == truth(api))
    api.bookmark()
    marked = api.version
    await until(lambda: api.requests[-1].get("sendInitialEvents") == "true")
    await asyncio.sleep(0)
    api.cut()
    await until(lambda: api.requests[-1].get("resourceVersion") == str(marked))
    await stop(task)


async def test_after_an_expired_version_only_differences_are_published() -> None:
    api, copy = FakeApi(), Copy()
    for name in ("kept", "gone", "changed"):
        api.put(name, "1")
    task = asyncio.create_task(reflector(api, copy).run())
    await until(lambda: len(copy.news) == 3)
    copy.news.clear()
    api.cut()
    api.delete("gone")
    api.put("changed", "2")
    api.put("new", "1")
    api.compact()
    await until(lambda: copy.content() == truth(api))
    assert sorted(copy.news) == [("changed", "2"), ("gone", None), ("new", "1")]
    await stop(task)


async def test_an_object_recreated_under_its_name_is_a_change() -> None:
    api, copy = FakeApi(), Copy()
    api.put("a", "1")
    task = asyncio.create_task(reflector(api, copy).run())
    await until(lambda: copy.content() == {"a": "1"})
    api.cut()
    api.delete("a")
    api.put("a", "2")
    api.compact()
    await until(lambda: copy.content() == {"a": "2"})
    record = copy.table.get("a")
    assert record is not None
    assert record.uid == api.objects["a"]["metadata"]["uid"]
    await stop(task)


async def test_a_server_that_ignores_the_wish_for_initial_events_is_listed() -> None:
    class Old(FakeApi):
        async def stream(self, path: str, query: Any = None, **options: Any) -> Any:
            if query.get("sendInitialEvents"):
                return
            async for line in super().stream(path, query, **options):
                yield line

    api, copy = Old(), Copy()
    api.put("a", "1")
    watching = reflector(api, copy)
    task = asyncio.create_task(watching.run())
    await until(watching.synced.is_set)
    assert copy.content() == {"a": "1"}
    await stop(task)


async def test_an_object_that_cannot_be_read_is_left_out_and_the_others_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def picky(raw: msgspec.Raw) -> ObjectRecord:
        record = decode_object(raw)
        if record.body["spec"]["value"] == "bad":
            raise ValueError("the value is bad")
        return record

    api, copy = FakeApi(), Copy()
    api.put("a", "bad")
    api.put("b", "good")
    watching = Reflector(api, NODECLAIMS, picky, copy.table)  # type: ignore[arg-type]
    task = asyncio.create_task(watching.run())
    await until(watching.synced.is_set)
    assert copy.content() == {"b": "good"}
    api.put("b", "bad")
    api.put("c", "good")
    await until(lambda: copy.content() == {"c": "good"})
    records = [record for record in caplog.records if record.message == "An object cannot be read and is left out"]
    kinds = {(vars(record)["kind"], vars(record)["object"], vars(record)["error"]) for record in records}
    assert ("NodeClaim", "a", "the value is bad") in kinds
    await stop(task)


async def test_a_deleted_object_goes_without_being_read() -> None:
    """Pods go all the time in a busy cluster, and what they contained does not matter any more."""
    read: list[str] = []

    def reading(raw: msgspec.Raw) -> ObjectRecord:
        record = decode_object(raw)
        read.append(record.name)
        return record

    api, copy = FakeApi(), Copy()
    api.put("a", "1")
    api.put("b", "1")
    watching = Reflector(api, NODECLAIMS, reading, copy.table)  # type: ignore[arg-type]
    task = asyncio.create_task(watching.run())
    await until(watching.synced.is_set)
    read.clear()
    api.delete("a")
    await until(lambda: copy.content() == {"b": "1"})
    assert read == []
    await stop(task)


def test_waits_double_with_chance_up_to_half_a_minute_and_heed_the_server() -> None:
    backoff = JitteredBackoff(random.Random(3))
    waits = [backoff.next() for _ in range(8)]
    for number, wait in enumerate(waits):
        assert min(30.0, 0.8 * 2**number) <= wait <= 30.0
    assert waits[-1] == 30.0
    assert backoff.next(retry_after=45.0) == 45.0
    assert backoff.next(retry_after=3600.0) == 60.0
    backoff.reset()
    assert 0.8 <= backoff.next() <= 1.6


@pytest.mark.parametrize(
    ("failure", "least"),
    [
        (TooManyRequestsError(429, "TooManyRequests", "slow down", retry_after=20), 20.0),
        (ApiUnreachableError("https://x", "refused"), 0.8),
        (ForbiddenError(403, "Forbidden", "no right to list"), 0.8),
        (ApiError(404, "NotFound", "the resource does not exist"), 0.8),
    ],
)
def test_it_waits_and_tries_again_after_any_failure(failure: ApiError, least: float) -> None:
    loop = looptime.new_event_loop()

    async def main() -> float:
        api, copy = FakeApi(), Copy()
        api.put("a", "1")
        api.failures.append(failure)
        watching = reflector(api, copy, pause=asyncio.sleep)
        task = asyncio.create_task(watching.run())
        began = loop.time()
        await watching.synced.wait()
        took: float = loop.time() - began
        await stop(task)
        return took

    try:
        assert least <= loop.run_until_complete(main()) <= 61.0
    finally:
        loop.close()
