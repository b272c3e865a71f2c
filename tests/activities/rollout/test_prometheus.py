"""What Prometheus may answer, over HTTP."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from activities.rollout.prometheus import ask_all
from tenon.apis.noderollout import PrometheusGate
from tenon.rollout.gates import QueryAnswer

pytestmark = pytest.mark.integration

SCALAR = {"resultType": "scalar", "result": [1.0, "0.25"]}
SAMPLE = {"metric": {}, "value": [1.0, "3"]}


@contextlib.asynccontextmanager
async def prometheus(body: str, status: int = 200) -> AsyncIterator[tuple[str, list[str]]]:
    """Yields the address of a server that answers so, and the queries that it got."""
    queries: list[str] = []

    async def query(request: web.Request) -> web.Response:
        queries.append(str((await request.post())["query"]))
        headers = {"Location": "http://127.0.0.1:1/"} if status == 302 else {}
        return web.Response(text=body, status=status, headers=headers)

    application = web.Application()
    application.router.add_post("/prefix/api/v1/query", query)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/prefix/", queries
    finally:
        await runner.cleanup()


def success(data: dict[str, Any]) -> str:
    return json.dumps({"status": "success", "data": data})


async def answer_to(body: str, status: int = 200) -> QueryAnswer:
    async with prometheus(body, status) as (address, _):
        gate = PrometheusGate(name="errors", address=address, query="up", max="1")
        return (await ask_all([gate]))["errors"]


@pytest.mark.parametrize(("data", "expected"), [(SCALAR, 0.25), ({"resultType": "vector", "result": [SAMPLE]}, 3.0)])
async def test_one_number_is_read(data: dict[str, Any], expected: float) -> None:
    assert await answer_to(success(data)) == QueryAnswer(expected)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (success({"resultType": "vector", "result": []}), "the query has no result"),
        (success({"resultType": "vector", "result": [SAMPLE, SAMPLE]}), "2 results: aggregate them to one"),
        (success({"resultType": "matrix", "result": []}), "the query returns a matrix"),
        (success({"resultType": "scalar", "result": [1.0, "NaN"]}), "no number as its result"),
        (success({"resultType": "scalar", "result": None}), "no number as its result"),
        (json.dumps({"status": "error", "error": "parse error"}), "refuses the query: parse error"),
        ("<html>", "answers 200, and not as Prometheus does"),
        ("[]", "refuses the query"),
    ],
)
async def test_anything_else_is_a_problem_and_no_value(body: str, problem: str) -> None:
    answer = await answer_to(body)
    assert answer.value is None
    assert problem in answer.problem


async def test_a_redirect_is_not_followed() -> None:
    assert "answers 302" in (await answer_to("moved", 302)).problem


async def test_a_server_that_is_away_has_a_problem_and_the_others_their_values() -> None:
    async with prometheus(success(SCALAR)) as (address, queries):
        first = PrometheusGate(name="here", address=address, query="sum(up)", max="1")
        away = PrometheusGate(name="away", address="http://127.0.0.1:1", query="up", max="1")
        answers = await ask_all([first, away])
    assert answers["here"] == QueryAnswer(0.25)
    assert "http://127.0.0.1:1 cannot be reached" in answers["away"].problem
    assert queries == ["sum(up)"]
    assert await ask_all([]) == {}
