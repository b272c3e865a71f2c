"""The table of `tenon cost`: charges grouped as a person asks, with idle room and daemons as rows of their own."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tenon.apis import labels
from tenon.cost.attribution import Attribution
from tenon.cost.bill import Lifetime
from tenon.cost.split import HEADROOM, IDLE, Consumer, ConsumerKind, PricedNode, shares
from tenon.errors import TenonError
from tenon.money import divide, dollars, nanos
from tenon.record.entries import CommandEndEntry, CostEntry, Entry

LABEL_PREFIX = "label:"
NO_POOL = "(no NodePool)"
NO_CONTROLLER = "(pods without a controller)"
NO_LABEL = "(without the label)"
UNKNOWN = "(unknown)"


class GroupingError(TenonError):
    """What rows are grouped by cannot be read. The message is one sentence."""


class Dimension(StrEnum):
    """What rows are."""

    POOL = "pool"
    NAMESPACE = "namespace"
    WORKLOAD = "workload"
    TYPE = "type"
    ZONE = "zone"
    CAPACITY_TYPE = "capacity-type"
    LABEL = "label"

    @property
    def is_of_pods(self) -> bool:
        """Whether pods cause it, so that the price of a node is divided."""
        return self in (Dimension.NAMESPACE, Dimension.WORKLOAD, Dimension.LABEL)


@dataclass(frozen=True, slots=True)
class Grouping:
    """What rows are grouped by."""

    dimension: Dimension
    label: str = ""
    """The key of the pods' label, for the dimension label."""

    def __str__(self) -> str:
        """As the user writes it."""
        return f"{LABEL_PREFIX}{self.label}" if self.label else self.dimension.value


def read_grouping(text: str) -> Grouping:
    """Return what the user asks for.

    Raises:
        GroupingError: it is none of the dimensions.
    """
    if text.startswith(LABEL_PREFIX) and len(text) > len(LABEL_PREFIX):
        return Grouping(Dimension.LABEL, text.removeprefix(LABEL_PREFIX))
    dimensions = {dimension.value: dimension for dimension in Dimension if dimension is not Dimension.LABEL}
    if text in dimensions:
        return Grouping(dimensions[text])
    names = ", ".join(dimensions)
    raise GroupingError(f"--by {text} is not known: use {names} or {LABEL_PREFIX}KEY, such as {LABEL_PREFIX}team.")


@dataclass(frozen=True, slots=True)
class Charge:
    """A part of the cost with all that is known of it."""

    amount: int
    """Nano-dollars: an hour, or in the window."""
    pool: str
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    consumer: Consumer | None = None
    """None if only the instance is known."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    name: str
    amount: int
    overhead: ConsumerKind | None = None
    """For a row that is no namespace, workload or label but one of these."""
    parts: Mapping[ConsumerKind, int] = field(default_factory=dict)
    """The amount by kind, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Saving:
    """What the commands of one reason save."""

    reason: str
    commands: int
    price: int
    """Nano-dollars an hour; negative for a loss."""


def charges_now(nodes: Iterable[PricedNode]) -> list[Charge]:
    """Return what each consumer on each node costs an hour."""
    return [
        Charge(amount, node.pool, node.instance_type, node.zone, node.capacity_type, consumer)
        for node in nodes
        for consumer, amount in shares(node).items()
    ]


def charges_by_consumer(attribution: Attribution) -> list[Charge]:
    """Return what each consumer of each NodePool costs in a window."""
    return [Charge(amount, pool, consumer=consumer) for (pool, consumer), amount in attribution.amounts.items()]


def charges_by_instance(lifetimes: Iterable[Lifetime], cost: Callable[[Lifetime], int]) -> list[Charge]:
    """Return what each instance costs in a window. ``cost``: of one instance."""
    return [
        Charge(amount, lifetime.pool, lifetime.instance_type, lifetime.zone, lifetime.capacity_type)
        for lifetime in lifetimes
        if (amount := cost(lifetime))
    ]


def grouped(charges: Iterable[Charge], grouping: Grouping) -> list[Row]:
    """Return the rows: the dearest first, and those that are not of pods last. They add up to the charges."""
    amounts: dict[tuple[str, ConsumerKind | None], dict[ConsumerKind | None, int]] = {}
    for charge in charges:
        kind = charge.consumer.kind if charge.consumer is not None else None
        parts = amounts.setdefault(_place(charge, grouping), {})
        parts[kind] = parts.get(kind, 0) + charge.amount
    rows = [
        Row(name, sum(parts.values()), overhead, {kind: part for kind, part in parts.items() if kind is not None})
        for (name, overhead), parts in amounts.items()
    ]
    return sorted(rows, key=lambda row: (row.overhead is not None, -row.amount, row.name))


def _place(charge: Charge, grouping: Grouping) -> tuple[str, ConsumerKind | None]:
    """The name of the row of a charge, and its kind if it is not one of pods."""
    consumer = charge.consumer
    match grouping.dimension:
        case Dimension.POOL:
            return charge.pool or NO_POOL, None
        case Dimension.TYPE:
            return charge.instance_type or UNKNOWN, None
        case Dimension.ZONE:
            return charge.zone or UNKNOWN, None
        case Dimension.CAPACITY_TYPE:
            return charge.capacity_type or UNKNOWN, None
    if consumer is None:
        return f"({ConsumerKind.UNMEASURED})", ConsumerKind.UNMEASURED
    if consumer.kind is ConsumerKind.DAEMONS and grouping.dimension is Dimension.WORKLOAD and consumer.workload:
        return f"{consumer.namespace}/{consumer.workload}", ConsumerKind.DAEMONS
    if consumer.kind is not ConsumerKind.PODS:
        return f"({consumer.kind})", consumer.kind
    match grouping.dimension:
        case Dimension.NAMESPACE:
            return consumer.namespace, None
        case Dimension.WORKLOAD:
            return f"{consumer.namespace}/{consumer.workload or NO_CONTROLLER}", None
        case _:
            return consumer.label or NO_LABEL, None


def labeled(attribution: Attribution, label_of: Mapping[tuple[str, str], str]) -> Attribution:
    """Return the attribution with the label of each workload: ``label_of`` has it by namespace and workload."""
    amounts: dict[tuple[str, Consumer], int] = {}
    for (pool, consumer), amount in attribution.amounts.items():
        value = label_of.get((consumer.namespace, consumer.workload), "") if consumer.kind is ConsumerKind.PODS else ""
        key = (pool, Consumer(consumer.kind, consumer.namespace, consumer.workload, value))
        amounts[key] = amounts.get(key, 0) + amount
    return Attribution(amounts, attribution.measured_until)


def spot_share(charges: Iterable[Charge]) -> float:
    """Return the part of the cost that is paid for spot capacity. The charges must know their instances."""
    sums = {True: 0, False: 0}
    for charge in charges:
        sums[charge.capacity_type == labels.SPOT] += charge.amount
    return sums[True] / (sums[True] + sums[False]) if sums[True] else 0.0


def savings_of(entries: Iterable[Entry]) -> list[Saving]:
    """Return what the commands that ended saved, by reason, the largest saving first."""
    commands: dict[str, list[int]] = {}
    for entry in entries:
        if isinstance(entry, CommandEndEntry) and entry.reached is not None and not entry.failure:
            price = nanos(abs(entry.reached))
            commands.setdefault(entry.reason, []).append(price if entry.reached >= 0 else -price)
    savings = [Saving(reason, len(prices), sum(prices)) for reason, prices in commands.items()]
    return sorted(savings, key=lambda saving: (-saving.price, saving.reason))


def with_headroom(charges: Sequence[Charge], last_entry: CostEntry) -> list[Charge]:
    """Return the charges of now with the headroom that the leader last saw: a part of what is idle in each NodePool.

    Where the pods of CapacityBuffers would go is known to the leader only, which simulates it.
    """
    hours = (last_entry.at - last_entry.since).total_seconds() / 3600
    headroom: dict[str, int] = {}
    for row in last_entry.rows:
        if row.of == ConsumerKind.HEADROOM and hours > 0:
            headroom[row.pool] = headroom.get(row.pool, 0) + nanos(row.cost / hours)
    idle: dict[str, list[Charge]] = {}
    for charge in charges:
        if charge.consumer == IDLE and headroom.get(charge.pool):
            idle.setdefault(charge.pool, []).append(charge)
    answer = [charge for charge in charges if charge.consumer != IDLE or charge.pool not in idle]
    for pool, idle_charges in idle.items():
        room = min(headroom[pool], sum(charge.amount for charge in idle_charges))
        parts = divide(room, [charge.amount for charge in idle_charges])
        for charge, part in zip(idle_charges, parts, strict=True):
            answer += [replace(charge, amount=part, consumer=HEADROOM), replace(charge, amount=charge.amount - part)]
    return [charge for charge in answer if charge.amount]


def share(row: Row, total: int) -> float:
    """Return the part of the total that a row is."""
    return row.amount / total if total else 0.0


def row_document(row: Row, total: int, monthly: float | None) -> dict[str, Any]:
    """Return a row as JSON. ``monthly``: hours of a month, if amounts are for an hour."""
    document: dict[str, Any] = {"name": row.name, "kind": (row.overhead or ConsumerKind.PODS).value}
    if monthly is None:
        document["cost"] = dollars(row.amount)
    else:
        document |= {
            "costPerHour": dollars(row.amount),
            "costPerMonth": round(dollars(row.amount) * monthly, 2),
        }
    document["share"] = round(share(row, total), 6)
    return document | {kind.value: dollars(row.parts[kind]) for kind in ConsumerKind if kind in row.parts}


def to_csv(documents: Sequence[Mapping[str, Any]], fields: Iterable[str]) -> str:
    """Return rows as CSV, with the field names of the JSON in the first line.

    ``fields``: those that the first line has without any row.
    """
    names = dict.fromkeys([*fields, *(name for document in documents for name in document)])
    output = io.StringIO()
    writer = csv.DictWriter(output, fieldnames=list(names), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(documents)
    return output.getvalue()
