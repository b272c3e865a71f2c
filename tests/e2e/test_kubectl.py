"""What people see who use kubectl: columns, categories, short names, explanations (CRD-01..03)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import pytest

from sandbox.cluster import Sandbox
from tests.e2e.conftest import MakePool
from tests.e2e.pools import Pool
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

Kubectl: TypeAlias = Callable[..., str]
Row: TypeAlias = dict[str, str]

EXPLAINED = [
    "nodepool",
    "nodepool.spec",
    "nodepool.spec.disruption",
    "nodepool.spec.disruption.budgets",
    "nodepool.spec.template.spec",
    "nodepool.spec.template.spec.requirements",
    "nodepool.status",
    "nodeclaim.spec",
    "nodeclaim.status",
    "ec2nodeclass.spec",
    "ec2nodeclass.spec.metadataOptions",
    "ec2nodeclass.spec.blockDeviceMappings.ebs",
    "ec2nodeclass.status",
]


OF_CLAIMS = ("IMAGEID", "ID", "NODEPOOL", "NODECLASS", "DRIFTED", "PRICE", "KEPT", "LEAVES", "DRAIN")


@pytest.fixture
def kubectl(sandbox: Sandbox) -> Kubectl:
    """Run kubectl as an administrator; what it prints."""
    return sandbox.kubectl


def table(text: str) -> list[Row]:
    """The rows that `kubectl get` printed, by column: a value stands where its heading begins."""
    head, *lines = text.rstrip("\n").split("\n")
    headings = [(result.group(), result.start()) for result in re.finditer(r"\S+", head)]
    ends = [start for _, start in headings[1:]] + [None]
    return [
        {name: line[start:end].strip() for (name, start), end in zip(headings, ends, strict=True)} for line in lines
    ]


def only(text: str) -> Row:
    """The one row of a table."""
    (row,) = table(text)
    return row


async def with_a_node(pool: Pool) -> Row:
    """A pod on a new node; the names of what came about."""
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)

    async def counted() -> bool:
        return bool((await pool.read())["status"]["nodes"] == 1)

    await until(counted)
    return {"claim": claim["metadata"]["name"], "node": claim["status"]["nodeName"]}


async def test_nps5_nc06_ecs9_columns_show_the_state(make_pool: MakePool, worker: Worker, kubectl: Kubectl) -> None:
    """NP-S5, NC-06, EC-S9: the columns that people know from Karpenter, in its order, with what the worker wrote."""
    pool = await make_pool()
    row = await with_a_node(pool)
    (instance,) = pool.instances(row["claim"])

    narrow = only(kubectl("get", "nodepools", pool.name))
    assert list(narrow) == ["NAME", "NODECLASS", "NODES", "READY", "AGE"]
    assert (narrow["NODECLASS"], narrow["NODES"], narrow["READY"]) == (pool.name, "1", "True")
    wide = only(kubectl("get", "nodepools", pool.name, "-o", "wide"))
    assert list(wide) == [*narrow, "WEIGHT", "CPU", "MEMORY", "LIMIT", "CAPACITY", "PRICE"]
    assert int(wide["CPU"]) >= 2
    assert wide["MEMORY"]

    narrow = only(kubectl("get", "nodeclaims", row["claim"]))
    assert list(narrow) == ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"]
    bought = (instance["type"], instance["capacity_type"], instance["zone"], row["node"], "True")
    assert tuple(narrow.values())[1:6] == bought
    wide = only(kubectl("get", "nodeclaims", row["claim"], "-o", "wide"))
    assert list(wide) == [
        *narrow,
        *["IMAGEID", "ID", "NODEPOOL", "NODECLASS", "DRIFTED", "PRICE", "KEPT", "LEAVES", "DRAIN"],
    ]
    assert float(wide["PRICE"]) == pytest.approx(instance["price"], abs=1e-4)
    assert wide["IMAGEID"].startswith("ami-")
    assert wide["ID"].endswith(instance["id"])
    assert (wide["NODEPOOL"], wide["NODECLASS"]) == (pool.name, pool.name)

    narrow = only(kubectl("get", "ec2nodeclasses", pool.name))
    assert list(narrow) == ["NAME", "READY", "AGE"]
    assert narrow["READY"] == "True"
    wide = only(kubectl("get", "ec2nodeclasses", pool.name, "-o", "wide"))
    assert list(wide) == [*narrow, "ROLE"]
    assert wide["ROLE"] == "KarpenterNodeRole-sandbox"

    result = kubectl("get", "karpenter", "-o", "name").split()
    assert {
        f"nodepool.karpenter.sh/{pool.name}",
        f"nodeclaim.karpenter.sh/{row['claim']}",
        f"ec2nodeclass.karpenter.k8s.aws/{pool.name}",
    } <= set(result)
    for name in ("ec2nc", "ec2ncs"):
        assert kubectl("get", name, pool.name, "-o", "name").strip() == f"ec2nodeclass.karpenter.k8s.aws/{pool.name}"


@pytest.mark.parametrize("path", EXPLAINED)
def test_kubectl_explain_has_a_sentence_for_every_field(kubectl: Kubectl, path: str) -> None:
    """A user who asks what a field is gets an answer, and the kind's own text is not missing either."""
    text = kubectl("explain", path)
    head, _, fields = text.partition("FIELDS:")
    described = head.partition("DESCRIPTION:")[2].strip()
    assert described not in ("", "<empty>"), text
    entries = re.split(r"\n  (?=\S+\t<)", fields)[1:]
    assert entries, text
    silent = [entry.split()[0] for entry in entries if "<no description>" in entry or len(entry.split("\n")) < 2]
    assert silent == []
