"""What the provisioner's page says of the cluster's price, and which commands say more."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.evolve import evolve
from tenon.messages.provisioning import ClusterCost, CostPart, PlanResult
from tenon.money import per_hour
from tenon.sentences import counted, for_temporal_ui

MORE = (
    "**More:** `tenon cost --by namespace` or `--by workload` says what each costs, `tenon explain pod NAMESPACE/POD` "
    "why a pod waits, `tenon why NODE` why a node was bought and at which price, and `tenon simulate --live "
    "--disruption` what disruption would do."
)


def cost_section(cost: ClusterCost | None, most: int) -> list[str]:
    """Return the section in Markdown; nothing if the leader has not measured the cluster. ``most``: names of a line."""
    if cost is None:
        return []
    bound = f"; any nodes for its pods cost at least {_price(cost.lower_bound)}" if cost.lower_bound else ""
    return [
        "",
        f"#### What the cluster cost at {cost.at:%Y-%m-%d %H:%M:%S} UTC",
        "",
        f"- {counted(cost.nodes, 'node')}, {_price(cost.price)}{bound}",
        *([f"- not counted: {counted(cost.others, 'node')} that Tenon did not launch"] if cost.others else []),
        *_parts("NodePool", cost.pools, cost.more_pools, most),
        *_parts("namespace", cost.namespaces, cost.more_namespaces, most, f"no pod uses {_price(cost.unused)}"),
        *(
            [f"- planned since then: {counted(cost.planned_nodes, 'node')}, {_price(cost.planned_price)}"]
            if cost.planned_nodes
            else []
        ),
        "- now: `tenon cost`, `tenon top`",
    ]


def with_planned(cost: ClusterCost | None, plan: PlanResult) -> ClusterCost | None:
    """Return the cost with what a plan adds to it, because the leader measures it again with its next answer only."""
    if cost is None:
        return None
    nodes, price = cost.planned_nodes + len(plan.claims), cost.planned_price + plan.price
    return evolve(cost, planned_nodes=nodes, planned_price=price)


def _parts(title: str, parts: Sequence[CostPart], more: int, most: int, rest: str = "") -> list[str]:
    if not parts:
        return []
    texts = [f"{part.name} {part.price:.4f}" for part in parts[:most]]
    more += len(parts[most:])
    texts += [f"{more} more"] if more else []
    return [f"- by {title}, in USD/h: {', '.join(texts)}" + (f"; {rest}" if rest else "")]


def _price(dollars: float) -> str:
    return for_temporal_ui(per_hour(dollars))
