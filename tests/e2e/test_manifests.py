"""A real API server takes what `tenon validate` takes and refuses what it refuses: examples of every age, and slips."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.cluster import Sandbox
from sandbox.kubectl import KubectlError
from tests.convert.running import convert, validate
from tests.e2e.worker import Worker
from tests.validate.slips import SLIPS, SOUND
from tests.workflows.waiting import until

SEEDS = Path("examples/seeds")
NO_OBJECTS = {"ClusterConfig"}
"""Kinds of other programs' files."""


async def created(sandbox: Sandbox, documents: Iterable[Any]) -> str:
    """What the API server says of objects when it is asked to create them and to keep none; empty when it takes all."""
    bodies = []
    for body in documents:
        metadata = {key: value for key, value in body["metadata"].items() if key != "namespace"}
        metadata["name"] = f"asked-{metadata['name']}"  # no object of another test has this name
        bodies.append({**body, "metadata": metadata})
    text = yaml.safe_dump_all(bodies)
    command = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    try:
        await asyncio.to_thread(sandbox.kubectl, *command, stdin=text)
    except KubectlError as error:
        return str(error).partition("-f -`: ")[2]
    return ""


@pytest.mark.parametrize("name", sorted(path.stem for path in SEEDS.glob("*.yaml")))
async def test_the_api_server_takes_the_articles_manifests_and_what_became_of_them(
    worker: Worker, sandbox: Sandbox, name: str
) -> None:
    """Old kinds as they were written, and today's that `tenon convert` prints (LEG-01..52, V1B-01..18)."""
    file = SEEDS / f"{name}.yaml"
    old = [body for body in yaml.safe_load_all(file.read_text()) if body["kind"] not in NO_OBJECTS]
    new = [body for body in yaml.safe_load_all(convert("-f", str(file)).out) if body and body["kind"] not in NO_OBJECTS]

    async def webhook_known() -> bool:  # a worker that has just begun to lead tells the API server of itself first
        return "conversion webhook" not in await created(sandbox, old)

    if old:
        await until(webhook_known)
        assert await created(sandbox, old) == ""
        assert await created(sandbox, new) == ""


@pytest.mark.parametrize("text", SOUND)
async def test_the_api_server_takes_what_validate_takes(sandbox: Sandbox, text: str) -> None:
    assert validate("-f", "-", stdin=text).status == 0
    assert await created(sandbox, yaml.safe_load_all(text)) == ""


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.path)
async def test_the_api_server_refuses_what_validate_refuses_until_it_is_mended(sandbox: Sandbox, slip: Any) -> None:
    """And the line that `tenon validate` says to write is the one that makes it take the manifest."""
    assert await created(sandbox, yaml.safe_load_all(slip.text)) != ""
    assert await created(sandbox, yaml.safe_load_all(slip.fixed_lines)) == ""
