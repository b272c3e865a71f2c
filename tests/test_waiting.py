"""Conditions are evaluated again when something that they read has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError
from activities.kubernetes.resources import NODEPOOLS
from activities.kubernetes.transport import Transport
from tests.activities.kubernetes.fake_api import FakeApi, http_handler, serve
from tests.watching_kube import WatchingKube
from tests.workflows import waiting
from tests.workflows.waiting import Changing, reads, until

pytestmark = pytest.mark.integration


@pytest.fixture
def only_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a change, no condition is evaluated again."""
    monkeypatch.setattr(waiting, "UNCHANGED_PAUSE", 3600.0)


def third(changing: Changing, before_it: Callable[[], object]) -> Callable[[], Awaitable[bool]]:
    """Holds when it is evaluated for the third time."""
    evaluated = 0

    async def condition() -> bool:
        nonlocal evaluated
        evaluated += 1
        reads(changing)
        before_it()
        return evaluated == 3

    return condition


@pytest.mark.usefixtures("only_changes")
async def test_a_change_after_the_read_is_not_missed() -> None:
    changing = Changing()
    await until(third(changing, changing.changed))


@pytest.mark.usefixtures("only_changes")
async def test_a_change_while_nothing_is_evaluated_ends_the_pause() -> None:
    changing = Changing()
    await until(third(changing, lambda: asyncio.get_running_loop().call_later(0.3, changing.changed)))


async def test_a_condition_that_hears_of_no_change_is_evaluated_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may also depend on something that nobody watches."""
    monkeypatch.setattr(waiting, "UNCHANGED_PAUSE", 0.0)
    await until(third(Changing(), lambda: None))


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_dear_condition_is_evaluated_less_often() -> None:
    """One that takes 0.2 s is paused for 0.4 s, and one that takes 2 s for half a second."""
    time = asyncio.get_running_loop().time

    async def seconds_of(evaluation: float) -> float:
        began = time()
        evaluations = 0

        async def condition() -> bool:
            nonlocal evaluations
            evaluations += 1
            await asyncio.sleep(evaluation)
            return evaluations == 3

        await until(condition)
        return time() - began

    assert await seconds_of(0.2) > 2 * 0.2 + 2 * 0.4 + 0.1
    assert 3 * 2.0 + 2 * 0.5 <= await seconds_of(2.0) < 3 * 2.0 + 2 * 2.0  # time passes really too on a busy machine
    assert await seconds_of(0.0) < 2 * 0.5


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_condition_that_is_waited_for_long_is_evaluated_less_often() -> None:
    """Its wait gets longer by a fiftieth at most. One that hears of changes is evaluated soon after each."""
    time = asyncio.get_running_loop().time
    began = time()
    evaluated: list[float] = []

    async def condition() -> bool:
        evaluated.append(time() - began)
        return evaluated[-1] >= 100.0

    await until(condition)
    assert evaluated[-1] < 101.0
    assert len(evaluated) < 250  # it would be a thousand

    changing = Changing()
    began = time()

    async def hears_of_changes() -> bool:
        reads(changing)
        return time() >= began + 100.0

    asyncio.get_running_loop().call_later(100.0, changing.changed)
    await until(hears_of_changes)
    assert time() < began + 101.0


@pytest.mark.usefixtures("only_changes")
async def test_a_client_of_a_cluster_hears_of_changes_also_after_its_watch_broke(tmp_path: Path) -> None:
    api = FakeApi()
    async with serve(http_handler(api), tmp_path, client=WatchingKube) as kube:

        async def two() -> bool:
            pools = await kube.list(NODEPOOLS)
            if len(pools) < 2:
                asyncio.get_running_loop().call_later(0.2, api.cut)
                asyncio.get_running_loop().call_later(0.2, api.put, f"pool-{api.version}", "new")
            return len(pools) >= 2

        await until(two)


async def test_a_client_of_tests_waits_ten_times_longer_than_the_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[aiohttp.ClientTimeout] = []

    async def send(self: Transport, method: str, path: str, limit: aiohttp.ClientTimeout, **content: Any) -> None:
        limits.append(limit)
        raise ApiUnreachableError(self.host, "only its limits matter")

    monkeypatch.setattr(Transport, "_send", send)
    for client in (Kube, WatchingKube):
        async with serve(http_handler(FakeApi()), tmp_path, client=client) as kube:
            with pytest.raises(ApiUnreachableError):
                await kube.request("GET", "/version")
    product, patient = limits
    assert patient.total == 10 * (product.total or 0.0) > 0.0
    assert patient.sock_connect == 10 * (product.sock_connect or 0.0) > 0.0


async def test_a_client_of_tests_repeats_reads_that_the_api_server_gave_up(tmp_path: Path) -> None:
    api = FakeApi()
    given_up = ApiError(504, "Timeout", "request did not complete within the allotted timeout")
    async with serve(http_handler(api), tmp_path, client=WatchingKube) as kube:
        api.failures += [given_up, given_up]
        await kube.request("GET", NODEPOOLS.path())
        api.failures += [given_up]
        with pytest.raises(ApiError, match="allotted"):
            await kube.request("POST", NODEPOOLS.path(), body={})
        api.failures += [ApiError(503, "ServiceUnavailable", "etcd is away")]
        with pytest.raises(ApiError, match="etcd"):
            await kube.request("GET", NODEPOOLS.path())
