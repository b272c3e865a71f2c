"""What `tenon cost` says of a churn of nodes is what the sandbox's EC2 charges for them, to the cent.

The bill is EC2's own: it is kept by the sandbox's EC2 from the states of its instances and its own prices, and knows
nothing of the product.
"""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NAMESPACES, PODS
from cli.record_source import entries
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.record.entries import CostEntry, RemovalEntry
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import KEY, Pool
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

LARGE = [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["32"]}]
"""Types of more than a dollar an hour on demand: a minute of it that is not counted is two cents."""
CENT = Decimal("0.01")
BANK = "bank"
"""A second namespace, beside that of the Deployments."""
WITHIN = 180.0
MAX_LATE_SECONDS = 30.0
"""How long after an instance ended EC2's answer may reach the worker on a slow machine: less than a counted minute."""


def billed(
    sandbox: Sandbox, pools: Iterable[Pool], removals: Mapping[str, RemovalEntry] | None = None
) -> dict[str, Decimal]:
    """What EC2 charges for the instances of each pool.

    ``removals``, by instance: those that ended count until the worker had EC2's answer. It cannot know of it earlier.
    """
    sums = {pool.name: Decimal() for pool in pools}
    for line in sandbox.ec2().bill()["lines"]:
        name = line["tags"].get(labels.TAG_NODEPOOL)
        if name in sums:
            sums[name] += Decimal(line["charge"])
            if removals and (removal := removals.get(line["instance"])):
                sums[name] += Decimal(line["price"]) * late_seconds(line, removal) / 3600
    return sums


def late_seconds(line: dict[str, Any], removal: RemovalEntry) -> Decimal:
    """The seconds from the end of an instance to EC2's answer, as far as EC2 does not charge them."""
    assert removal.launched_at is not None
    assert removal.terminated_at is not None
    late = (removal.terminated_at - removal.launched_at).total_seconds() - line["seconds"]
    assert late < MAX_LATE_SECONDS, (line, removal)
    return max(Decimal(str(late)), Decimal())


def same_to_the_cent(amount: float | Decimal, bill: Decimal) -> bool:
    return abs(Decimal(str(amount)) - bill) < CENT / 2


async def test_what_a_churn_of_nodes_cost_is_what_ec2_charges(
    sandbox: Sandbox, kube: Kube, worker: Worker, make_pool: MakePool, tenon: Run, tmp_path: Path
) -> None:
    """By NodePool, by namespace and in all; while instances run, and after they have gone; and in the export."""
    start, record = datetime.now(UTC), str(worker.log)  # the log on standard output has the record too

    def cost(*arguments: str, by: str) -> dict[str, Any]:
        window = ("--from", start.isoformat(), "--record", record)
        done = tenon("cost", *window, "--by", by, "-o", "json", *arguments, RECORD_SINKS=None)
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def by_name(report: dict[str, Any]) -> dict[str, float]:
        return {row["name"]: row["cost"] for row in report["rows"]}

    await kube.create(NAMESPACES, {"metadata": {"name": BANK}})
    shop: Pool = await make_pool(requirements=LARGE, capacity_types=["on-demand"])
    bank: Pool = await make_pool(requirements=LARGE, capacity_types=["spot"])
    pools = (shop, bank)
    teller = {"metadata": {"name": "teller", "labels": {KEY: bank.name}}, "spec": bank.pod_spec("5")}
    await kube.create(PODS, teller, BANK)
    await shop.daemon(cpu="500m")
    await shop.deploy(2, cpu="18")  # of which a node has room for one
    names: set[str] = set()
    removals: dict[str, RemovalEntry] = {}

    async def removed() -> bool:
        """Whether the record has the removals of all these NodeClaims."""
        read = await asyncio.to_thread(lambda: list(entries(record, start)))
        removals.update({entry.facts.instance: entry for entry in read if isinstance(entry, RemovalEntry)})
        return names <= {entry.facts.claim for entry in removals.values()}

    for _ in range(2):
        await shop.running(2, "web")
        claims = await shop.claims()
        names |= {claim["metadata"]["name"] for claim in claims}
        await shop.scale(0)
        for claim in claims:
            await shop.gone(claim["metadata"]["name"])
        await shop.scale(2)
    await shop.running(2, "web")

    async def sampled() -> bool:
        read = await asyncio.to_thread(lambda: list(entries(record, start)))
        samples = [entry for entry in read if isinstance(entry, CostEntry)]
        rows = [row for entry in samples for row in entry.rows]
        pods = {(row.pool, row.namespace) for row in rows if row.of == "pods"}
        daemons = {row.pool for row in rows if row.of == "daemons"}
        return {(bank.name, BANK), (shop.name, "default")} <= pods and shop.name in daemons

    await until(sampled, within=WITHIN)
    await until(removed, within=WITHIN)

    # While instances run.
    before = billed(sandbox, pools)
    report = await asyncio.to_thread(cost, by="pool")
    after = billed(sandbox, pools, removals)  # the report is of a moment between the two
    for pool in pools:
        amount = Decimal(str(by_name(report)[pool.name]))
        assert before[pool.name] - CENT / 2 < amount < after[pool.name] + CENT / 2, (report, before, after)

    # After all have gone.
    claims = [*await shop.claims(), *await bank.claims()]
    await shop.scale(0)
    await kube.delete(PODS, "teller", namespace=BANK, grace_seconds=0)
    names |= {claim["metadata"]["name"] for claim in claims}
    await until(removed, within=WITHIN)
    target = tmp_path / "focus.csv"
    export = ("--export", str(target), "--billing-account", "123456789012")
    by_pool, by_namespace = (
        await asyncio.to_thread(cost, *export, by="pool"),
        await asyncio.to_thread(cost, by="namespace"),
    )
    bill = billed(sandbox, pools, removals)
    assert sum(bill.values()) > 10 * CENT, "there is something to compare"
    for pool in pools:
        assert same_to_the_cent(by_name(by_pool)[pool.name], bill[pool.name]), (by_pool, bill)
    whole = sum(bill.values(), Decimal())
    own_rows = {row["name"]: row for row in by_pool["rows"] if row["name"] in bill}
    assert same_to_the_cent(sum(row["cost"] for row in own_rows.values()), whole)
    assert own_rows.keys() == by_name(by_pool).keys(), "no other test has instances now"
    assert same_to_the_cent(by_pool["total"]["cost"], whole)

    namespaces = by_name(by_namespace)
    assert {"default", BANK, "(daemons)", "(idle)"} <= namespaces.keys()
    assert sum(Decimal(str(amount)) for amount in namespaces.values()) == Decimal(str(by_pool["total"]["cost"]))
    assert 0 < namespaces[BANK] < by_name(by_pool)[bank.name]

    with target.open() as file:
        rows = list(csv.DictReader(file))
    assert same_to_the_cent(sum((Decimal(row["BilledCost"]) for row in rows), Decimal()), whole)
    assert {row["PricingCategory"] for row in rows if row["x_NodePool"] == bank.name} == {"Dynamic"}
    assert {row["x_Namespace"] for row in rows if row["x_CostKind"] == "pods"} == {"default", BANK}


async def test_the_cost_of_an_hour_is_that_of_what_runs(
    sandbox: Sandbox, kube: Kube, worker: Worker, make_pool: MakePool, tenon: Run
) -> None:
    """Without a record; and the worker's metric says the same."""
    pool: Pool = await make_pool(requirements=LARGE, capacity_types=["on-demand"])
    await pool.deploy(1, cpu="18")
    await pool.running(1, "web")
    (line,) = [line for line in sandbox.ec2().bill()["lines"] if line["tags"].get(labels.TAG_NODEPOOL) == pool.name]
    done = await asyncio.to_thread(tenon, "cost", "--by", "pool", "-o", "json")
    assert done.returncode == 0, done.stderr
    (row,) = [row for row in json.loads(done.stdout)["rows"] if row["name"] == pool.name]
    assert row["costPerHour"] == float(line["price"])

    async def measured() -> bool:
        kinds = ("pods", "daemons", "headroom", "idle", "starting")
        series = [worker.metric("tenon_nodepools_cost_per_hour", nodepool=pool.name, kind=kind) for kind in kinds]
        return sum(value or 0.0 for value in series) == pytest.approx(float(line["price"]))

    await until(measured, within=WITHIN)
