"""What the provisioner's page says of the cluster's price, and which commands say more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.kube.timestamps import time_text
from tenon.messages.provisioning import BatchOutcome, ClusterCost, CostPart
from tenon.money import per_hour
from tenon.provisioning.batch_lines import REMEMBERED, created
from tenon.sentences import counted, for_temporal_ui

MORE = (
    "**More:** `tenon cost --by namespace` or `--by workload` says what each costs, `tenon explain pod NAMESPACE/POD` "
    "why a pod waits, `tenon why NODE` why a node was bought and at which price, and `tenon simulate --live "
    "--disruption` what disruption would do."
)


def cost_section(cost: ClusterCost | None, last_batches: Sequence[BatchOutcome], most: int) -> list[str]:
    """Return the section in Markdown; nothing if the leader has not measured the cluster. ``most``: names of a line."""
    if cost is None:
        return []
    bound = f"; any nodes for its pods cost at least {_price(cost.lower_bound)}" if cost.lower_bound else ""
    return [
        "",
        f"#### What the cluster cost at {time_text(cost.at)}",
        "",
        f"- {counted(cost.nodes, 'node')}, {_price(cost.price)}{bound}",
        *([f"- not counted: {counted(cost.others, 'node')} that Tenon did not launch"] if cost.others else []),
        *_parts("NodePool", cost.pools, cost.more_pools, most),
        *_parts("namespace", cost.namespaces, cost.more_namespaces, most, f"no pod uses {_price(cost.unused)}"),
        *_planned_since(cost.at, last_batches),
        "- now: `tenon cost`, `tenon top`",
    ]


def _planned_since(measured: datetime, last_batches: Sequence[BatchOutcome]) -> list[str]:
    """Say what batches added since the leader measured, without what EC2 refused. It measures again with its answer."""
    batches = [created(outcome) for outcome in last_batches if outcome.at > measured]
    nodes = sum(batch.number for batch in batches)
    if not nodes:
        return []
    at_least = "" if len(batches) < REMEMBERED else "at least "  # the workflow forgets earlier batches
    prices = [batch.price for batch in batches if batch.price is not None]
    price = f", {_price(sum(prices))}" if len(prices) == len(batches) else ""
    return [f"- planned since then: {at_least}{counted(nodes, 'node')}{price}"]


def _parts(title: str, parts: Sequence[CostPart], more: int, most: int, rest: str = "") -> list[str]:
    if not parts:
        return []
    texts = [f"{part.name} {part.price:.4f}" for part in parts[:most]]
    more += len(parts[most:])
    texts += [f"{more} more"] if more else []
    return [f"- by {title}, in USD/h: {', '.join(texts)}" + (f"; {rest}" if rest else "")]


def _price(dollars: float) -> str:
    return for_temporal_ui(per_hour(dollars))
