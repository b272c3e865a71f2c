"""What `tenon doctor --before-migrating` shows: objects that would behave otherwise, and settings as chart values.

Nothing is changed, and neither Temporal nor AWS is asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich import box
from rich.markup import escape
from rich.table import Table

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import NotFoundError
from activities.kubernetes.resources import (
    AWSNODETEMPLATES,
    CAPACITYBUFFERS,
    EC2NODECLASSES,
    MACHINES,
    NODECLAIMS,
    NODEOVERLAYS,
    NODEPOOLS,
    NODES,
    PODS,
    PROVISIONERS,
    Resource,
)
from cli.console import output_console
from cli.switching.conversion import as_v1, expiry_by_pool
from cli.switching.deployments import DeploymentError, karpenters
from cli.switching.observing import served
from tenon.apis import labels
from tenon.apis.json_object import JsonObject, field_at
from tenon.manifests.yaml_writer import as_yaml
from tenon.migration.behavior import BehaviorDifference, MigratedObjects, differences
from tenon.sentences import counted
from worker.settings.container_variables import variables_of
from worker.settings.karpenters_values import ChartValues, translate

PARITY = "docs/parity.md"
SHOWN = 20
"""How many objects of one kind and row a terminal shows; JSON has all."""


@dataclass(frozen=True, slots=True)
class Migration:
    """What a move to Tenon means for a cluster."""

    differences: Sequence[BehaviorDifference]
    values: ChartValues | None
    """None if Karpenter's Deployment cannot be found."""
    why_no_values: str = ""


async def examine(kube: Kube, karpenter: str | None) -> Migration:
    """Look at the cluster. ``karpenter``: its Deployment as NAMESPACE/NAME; None: the only one.

    Raises:
        ApiError: the API server refuses.
    """
    values: ChartValues | None = None
    gates_text = why = ""
    try:
        workload = await karpenters(kube, karpenter)
        deployment = await workload.read(kube)
        config_maps = await workload.config_maps(kube, deployment)
        values = translate(deployment, config_maps)
        gates_text = variables_of(deployment, config_maps).values.get("FEATURE_GATES", "")
    except DeploymentError as error:
        why = str(error)
    gates = {name.strip(): value.strip().lower() == "true" for name, _, value in _parts(gates_text)}
    old: list[JsonObject] = []
    for resource in (PROVISIONERS, AWSNODETEMPLATES, MACHINES):
        old += await _list(kube, resource)
    pools = [as_v1(pool) for pool in await _list(kube, NODEPOOLS)]
    expiry = expiry_by_pool(pools)
    objects = MigratedObjects(
        pools=pools,
        classes=[as_v1(node_class) for node_class in await _list(kube, EC2NODECLASSES)],
        claims=[as_v1(claim, expiry) for claim in await _list(kube, NODECLAIMS)],
        nodes=[node for node in await kube.list(NODES) if _is_karpenters(node)],
        pods=await kube.list(PODS),
        overlays=await _list(kube, NODEOVERLAYS),
        buffers=await _list(kube, CAPACITYBUFFERS),
        old=old,
        gates=gates,
    )
    return Migration(differences(objects), values, why)


def _parts(text: str) -> list[tuple[str, str, str]]:
    return [item.partition("=") for item in text.split(",") if item.strip()]


def _is_karpenters(node: JsonObject) -> bool:
    own = field_at(node, "metadata", "labels") or {}
    return labels.NODEPOOL in own or labels.PROVISIONER in own


async def _list(kube: Kube, resource: Resource) -> list[JsonObject]:
    """All objects, in v1beta1 if the CRD does not serve v1; none if the API server does not have their kind."""
    try:
        return await kube.list(await served(kube, resource))
    except NotFoundError:
        return []


def as_json(migration: Migration) -> str:
    """Return everything as JSON."""
    document = {
        "differences": [asdict(item) for item in migration.differences],
        "values": migration.values.values if migration.values else None,
        "notes": migration.values.notes if migration.values else [migration.why_no_values],
    }
    return json.dumps(document, indent=2)


def show(migration: Migration) -> None:
    """Print the objects as a table, and the values as YAML."""
    console = output_console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("object", overflow="fold")
    table.add_column("row", no_wrap=True)
    table.add_column("under Tenon", ratio=1, overflow="fold")
    shown: dict[tuple[str, str], int] = {}
    for item in migration.differences:
        key = (item.kind, item.row)
        shown[key] = shown.get(key, 0) + 1
        if console.is_terminal and shown[key] > SHOWN:
            continue
        action = f"\n[bold]{escape(item.action)}[/bold]" if item.action else ""
        table.add_row(escape(f"{item.kind} {item.name}"), item.row, f"{escape(item.sentence)}{action}")
    if migration.differences:
        console.print(table)
    for (kind, row), count in shown.items():
        if console.is_terminal and count > SHOWN:
            print(f"... and {counted(count - SHOWN, f'other {kind}')} with {row}: -o json has all")
    print(f"{counted(len(migration.differences), 'difference')}. {PARITY} says what each row means.")
    if migration.values is None:
        print(f"No values for the chart: {migration.why_no_values}")
        return
    print("\n# Values for Tenon's chart, from Karpenter's Deployment:")
    for note in migration.values.notes:
        print(f"# - {note}")
    print(as_yaml(migration.values.values), end="")
