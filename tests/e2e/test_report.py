"""`tenon report` on a cluster in which nodes came and went: it says what happened, what runs and what could change."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from cli.record_source import entries
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.record.entries import RemovalEntry
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import SMALL, WITHIN
from tests.tenon.report.test_page import TAGS, Page
from tests.workflows.waiting import until
from workflows import names


async def test_a_report_tells_of_nodes_that_came_and_went(
    make_pool: MakePool, tenon: Run, kube: Kube, sandbox: Sandbox, tmp_path: Path
) -> None:
    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    await pool.deploy(2)
    await pool.running(2)
    gone_claims = {claim["metadata"]["name"] for claim in await pool.claims()}
    await pool.scale(0)

    async def are_gone() -> bool:
        return not await pool.claims()

    await until(are_gone, within=WITHIN)
    policy = {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"}}}
    await kube.patch(NODEPOOLS, pool.name, policy)
    await pool.deploy(1, "pinned", annotations={labels.DO_NOT_DISRUPT: "true"})
    await pool.running(1)
    (claim,) = await pool.settled(1)
    (pod,) = await pool.pods("pinned")
    node_name = claim["status"]["nodeName"]

    async def is_recorded() -> bool:
        read = await asyncio.to_thread(lambda: list(entries(str(sandbox.record), cluster=sandbox.cluster_name)))
        return gone_claims <= {entry.facts.claim for entry in read if isinstance(entry, RemovalEntry)}

    await until(is_recorded, within=WITHIN)
    answer = await asyncio.to_thread(tenon, "report", "-o", "json", "--since", "1h")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["cluster"] == sandbox.cluster_name
    launches = {group["nodePool"]: group["count"] for group in document["past"]["window"]["launched"]}
    assert launches[pool.name] >= 1 + len(gone_claims)
    assert "Empty" in {group["reason"] for group in document["past"]["window"]["removed"]}
    assert document["past"]["cost"]["byNodePool"][pool.name] > 0
    deeds = {(group["actor"], group["deed"]) for group in document["past"]["window"]["actors"]}
    assert ("provisioner", "launch") in deeds
    (node,) = [node for node in document["nodes"] if node["nodeClaim"] == claim["metadata"]["name"]]
    assert node["pricePerHour"] > 0
    pins = [
        item for item in document["advice"] if item["rule"] == "pinned-by-annotation" and node_name in item["nodes"]
    ]
    assert f"default/{pod['metadata']['name']}" in pins[0]["pods"]

    page_file = tmp_path / "report.html"
    written = await asyncio.to_thread(tenon, "report", "-o", str(page_file), "--since", "1h")
    assert written.returncode == 0, written.stderr
    page = Page(page_file.read_text(encoding="utf-8"))
    assert page.open == []
    assert page.tags <= TAGS
    assert all(reference.startswith("#") for reference in page.references)
    assert node_name in page.words
    assert f"{pins[0]['sentence']}." in page.words
    rows = [" | ".join(row) for row in page.cells]
    assert [row for row in rows if re.match(r"Empty \| \d+ \| \d+ \|", row)]
    assert [row for row in rows if row.startswith(f"{pool.name} | ")]


async def test_a_report_says_what_blocks_a_drain_and_what_resolves_it(
    make_pool: MakePool, tenon: Run, client: Client
) -> None:
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    budget = await pool.protect("web")
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name = claim["metadata"]["name"]
    drained = await asyncio.to_thread(tenon, "node", "drain", name, "--reason", "kernel bug")
    assert drained.returncode == 0, drained.stderr

    async def is_blocked() -> bool:
        query = f'{names.BLOCKED.name} = true AND {names.POOL.name} = "{pool.name}"'
        return bool([run.id async for run in client.list_workflows(query)])

    await until(is_blocked, within=WITHIN)
    document: dict[str, Any] = {}

    async def is_told() -> bool:  # a report waits for Temporal for a few seconds only
        answer = await asyncio.to_thread(tenon, "report", "-o", "json", "--since", "1h")
        assert answer.returncode == 0, answer.stderr
        document.update(json.loads(answer.stdout))
        return name in document["blocked"]

    await until(is_told, within=WITHIN)
    assert f"PodDisruptionBudget default/{budget}" in document["blocked"][name]
    assert f"`tenon node force-drain {name}`" in document["blocked"][name]
    (row,) = [row for row in document["nodes"] if row["nodeClaim"] == name]
    assert (row["stage"], row["blocked"]) == ("draining", True)
    assert "kernel bug" in row["why"]
    waiting = [item for item in document["advice"] if item["rule"] == "drain-waits-for-budget"]
    assert claim["status"]["nodeName"] in [node for item in waiting for node in item["nodes"]]
