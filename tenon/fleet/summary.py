"""What is true of all nodes together: totals, pods without a node, disruption commands, freezes and rollouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tenon.apis import labels
from tenon.fleet.rows import NodeRow
from tenon.kube.timestamps import spoken
from tenon.money import HOURS_A_MONTH, per_hour
from tenon.sentences import counted, first_few


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the instances of NodeClaims, and what they leave out."""

    nodes: int
    ready: int
    pods: int
    cpu_requests: int
    cpu: int
    memory_requests: int
    memory: int
    cost: float
    """In dollars an hour, of the nodes whose price is known."""
    unpriced: int
    """Number of nodes with an instance whose price is not known."""
    spot: int
    """Number of spot nodes."""
    spot_cost: float
    unlaunched: int
    """Number of NodeClaims that have no instance yet. No sum counts them."""
    workflows_only: int
    """Number of nodes whose NodeClaim is gone, and whose workflow has not ended yet. No sum counts them."""
    others: int
    """Number of nodes that Tenon did not launch, such as those of node groups. No sum counts them."""
    others_cost: float
    """In dollars an hour, of those with a known price."""

    @property
    def left_out(self) -> str:
        """What the sums leave out, in a clause; empty if nothing."""
        cost = f" ({per_hour(self.others_cost)})" if self.others_cost else ""
        parts = [
            f"{counted(self.unlaunched, 'NodeClaim')} without an instance" if self.unlaunched else "",
            f"{counted(self.workflows_only, 'node')} whose NodeClaim is gone" if self.workflows_only else "",
            f"{counted(self.others, 'node')} that Tenon did not launch{cost}" if self.others else "",
        ]
        return ", ".join(filter(None, parts))

    @property
    def monthly_cost(self) -> float:
        """The cost of a month of 730 hours."""
        return self.cost * HOURS_A_MONTH

    @property
    def cpu_share(self) -> float:
        """Requests of CPU over what is allocatable."""
        return self.cpu_requests / self.cpu if self.cpu else 0.0

    @property
    def memory_share(self) -> float:
        """Requests of memory over what is allocatable."""
        return self.memory_requests / self.memory if self.memory else 0.0

    @property
    def spot_share(self) -> float:
        """The part of the nodes that are spot nodes."""
        return self.spot / self.nodes if self.nodes else 0.0


def totals(rows: Iterable[NodeRow]) -> Totals:
    """Sum the rows that count."""
    all_rows = list(rows)
    rows = [row for row in all_rows if row.is_counted]
    others = [row for row in all_rows if not row.claim]
    workflows_only = sum(row.is_workflow_only for row in all_rows)
    spot_rows = [row for row in rows if row.capacity_type == labels.SPOT]
    return Totals(
        nodes=len(rows),
        ready=sum(row.ready for row in rows),
        pods=sum(row.pods for row in rows),
        cpu_requests=sum(row.cpu_requests for row in rows),
        cpu=sum(row.cpu for row in rows),
        memory_requests=sum(row.memory_requests for row in rows),
        memory=sum(row.memory for row in rows),
        cost=sum(row.price or 0.0 for row in rows),
        unpriced=sum(row.price is None for row in rows),
        spot=len(spot_rows),
        spot_cost=sum(row.price or 0.0 for row in spot_rows),
        unlaunched=len(all_rows) - len(rows) - len(others) - workflows_only,
        workflows_only=workflows_only,
        others=len(others),
        others_cost=sum(row.price or 0.0 for row in others),
    )


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod without a node."""

    key: str
    since: datetime | None
    why: str
    """The message of its condition PodScheduled, or why it does not wait for a node."""
    claim: str = ""
    """The NodeClaim that was bought for it."""


def reasons_of(pending_pods: Iterable[PendingPod]) -> list[tuple[str, list[str]]]:
    """Return each reason with the keys of its pods, the most frequent reason first."""
    by_reason: dict[str, list[str]] = {}
    for pod in pending_pods:
        by_reason.setdefault(f"on its way to {pod.claim}" if pod.claim else pod.why, []).append(pod.key)
    return sorted(((why, sorted(keys)) for why, keys in by_reason.items()), key=lambda item: (-len(item[1]), item[0]))


@dataclass(frozen=True, slots=True)
class CommandSummary:
    """A disruption command that is under way."""

    id: str
    reason: str
    nodes: Sequence[str]
    replacements: Sequence[str]
    saving: float | None
    """In dollars an hour: as its workflow predicts, or of the prices of its nodes; None if that is not known yet."""
    waits: str = ""
    """What it waits for; empty if only NodeClaims are known."""
    started: datetime | None = None
    """When its workflow began; None if only NodeClaims are known."""
    awaits_approval: bool = False
    """It has done nothing yet, and waits for a person."""


@dataclass(frozen=True, slots=True)
class FrozenPools:
    """NodePools in which a DisruptionFreeze stops disruption now."""

    pools: Sequence[str]
    freeze: str
    by: str
    reason: str
    until: datetime | None
    """None if time alone does not end it."""
    cause: str
    """By what, whom, why and until when, as the end of a sentence."""

    @property
    def clause(self) -> str:
        """All of it, as the end of a sentence."""
        return f"frozen {self.cause}"


@dataclass(frozen=True, slots=True)
class OpenRollout:
    """A NodePool that a NodeRollout has not brought to one version."""

    rollout: str
    pool: str
    phase: str
    """Such as Progressing, Paused or Halted."""
    wave: str
    """Such as ``2/4``; empty before the first wave."""
    target: str
    message: str


@dataclass(frozen=True, slots=True)
class PoolSchedule:
    """A NodePool of which NodeSchedules ask something now."""

    pool: str
    holds: str
    """What holds, in words."""
    entries: Sequence[str]
    """The entries that ask for it, such as ``hours/nights``."""
    until: datetime | None
    """When something else holds, in local time; None if that is more than a week ahead."""

    @property
    def clause(self) -> str:
        """All of it, as the end of a sentence."""
        until = f" until {spoken(self.until)}" if self.until is not None else ""
        by = f", by NodeSchedule {first_few(self.entries, 2)}" if self.entries else ""
        return f"{self.holds}{until}{by}"


def open_commands(rows: Iterable[NodeRow], reasons: Mapping[str, str]) -> list[CommandSummary]:
    """Return the disruption commands that NodeClaims name.

    Args:
        rows: the nodes.
        reasons: by NodeClaim, the reason in its condition DisruptionReason.
    """
    leaving: dict[str, list[NodeRow]] = {}
    arriving: dict[str, list[NodeRow]] = {}
    for row in rows:
        if row.command:
            leaving.setdefault(row.command, []).append(row)
        if row.replaces:
            arriving.setdefault(row.replaces, []).append(row)
    return [
        CommandSummary(
            id=command,
            reason=next((reasons[row.claim] for row in nodes if reasons.get(row.claim)), ""),
            nodes=sorted(row.name for row in nodes),
            replacements=sorted(row.name for row in arriving.get(command, ())),
            saving=_saving(nodes, arriving.get(command, ())),
        )
        for command, nodes in sorted(leaving.items())
    ]


LEAVING = "its nodes leave"
"""What a command waits for whose workflow has ended."""


def commands_of_workflows(
    of_workflows: Iterable[CommandSummary], of_claims: Iterable[CommandSummary], names: Mapping[str, str]
) -> list[CommandSummary]:
    """Return the commands as their workflows describe them, and those that have only left nodes behind.

    Args:
        of_workflows: the commands whose workflow runs, with the names of NodeClaims.
        of_claims: those that NodeClaims name.
        names: by NodeClaim, the name of its Node.
    """
    rest = {command.id: command for command in of_claims}
    commands = []
    for command in of_workflows:
        by_claims = rest.pop(command.id, None)
        commands.append(
            replace(
                command,
                nodes=sorted(names.get(claim, claim) for claim in command.nodes),
                replacements=sorted(names.get(claim, claim) for claim in command.replacements)
                or (by_claims.replacements if by_claims is not None else []),
                saving=by_claims.saving if command.saving is None and by_claims is not None else command.saving,
            )
        )
    return [*commands, *(replace(command, waits=LEAVING) for command in rest.values())]


def _saving(nodes: Iterable[NodeRow], replacements: Iterable[NodeRow]) -> float | None:
    before, after = [row.price for row in nodes], [row.price for row in replacements]
    if None in before or None in after:
        return None
    return sum(price or 0.0 for price in before) - sum(price or 0.0 for price in after)
