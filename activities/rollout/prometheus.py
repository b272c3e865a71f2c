"""Asks Prometheus for the one number of a query."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import aiohttp

from tenon.apis.noderollout import PrometheusGate
from tenon.rollout.gates import QueryAnswer
from tenon.sentences import shortened

ANSWER_WITHIN = 10.0
MAX_BYTES = 1_000_000
"""How much of an answer is read. One number takes some hundred bytes."""
MAX_PROBLEM = 200


async def ask_all(gates: list[PrometheusGate]) -> dict[str, QueryAnswer]:
    """Return, by the names of the queries, what Prometheus answered. A query that fails has a problem and no value."""
    if not gates:
        return {}
    timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        answers = await asyncio.gather(*(_ask(session, gate) for gate in gates))
    return {gate.name: answer for gate, answer in zip(gates, answers, strict=True)}


async def _ask(session: aiohttp.ClientSession, gate: PrometheusGate) -> QueryAnswer:
    address = f"{gate.address.rstrip('/')}/api/v1/query"
    try:
        # A redirect could lead anywhere in the cluster's network.
        async with session.post(address, data={"query": gate.query}, allow_redirects=False) as response:
            content = b""
            async for chunk, _ in response.content.iter_chunks():
                content += chunk
                if len(content) > MAX_BYTES:
                    return QueryAnswer(problem=f"{gate.address} answers with more than {MAX_BYTES} bytes")
            status = response.status
    except TimeoutError:
        return QueryAnswer(problem=f"{gate.address} does not answer within {ANSWER_WITHIN:.0f} s")
    except (aiohttp.ClientError, OSError, ValueError) as error:  # a name with two dots is no host name
        return QueryAnswer(problem=shortened(f"{gate.address} cannot be reached: {error}", MAX_PROBLEM))
    try:
        answer = json.loads(content)
    except ValueError:
        return QueryAnswer(problem=f"{gate.address} answers {status}, and not as Prometheus does")
    return _number(answer if isinstance(answer, dict) else {}, gate.address)


def _number(answer: dict[str, Any], address: str) -> QueryAnswer:
    """Read an answer of the HTTP API. Only a scalar, or a vector with one sample, has one number."""
    if answer.get("status") != "success":
        return QueryAnswer(problem=shortened(f"{address} refuses the query: {answer.get('error')}", MAX_PROBLEM))
    data = answer.get("data") or {}
    sample: Any = data.get("result")
    if data.get("resultType") == "vector":
        samples = sample or []
        if not samples:
            return QueryAnswer(problem="the query has no result")
        if len(samples) > 1:
            return QueryAnswer(problem=f"the query has {len(samples)} results: aggregate them to one, as with sum()")
        sample = samples[0].get("value")
    elif data.get("resultType") != "scalar":
        return QueryAnswer(problem=f"the query returns a {data.get('resultType')}: it must return one number")
    try:
        value = float(sample[1])
    except (TypeError, ValueError, IndexError):
        return QueryAnswer(problem="the query has no number as its result")
    return QueryAnswer(problem="the query has no number as its result") if math.isnan(value) else QueryAnswer(value)
