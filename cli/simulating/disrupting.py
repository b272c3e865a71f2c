"""Computes the disruption commands that a simulated cluster would get, and why its other nodes stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from activities.disruption.repair_source import no_repair, repair_now, stated_repair
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.commands.open_commands import (
    awaiting_replacement,
    claims_of,
    claims_of_finished_commands,
    commands_without,
    hosts_of,
)
from tenon.disruption.decision import Candidate, Command
from tenon.disruption.forecast import forecast
from tenon.disruption.history.slowed_condition import slowed_by_conditions
from tenon.disruption.methods import moving_methods
from tenon.disruption.methods.gates import DecisionGates
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import policies_of
from tenon.disruption.rules.approvals import approvals_of
from tenon.disruption.rules.scheduled_off import off_pool
from tenon.disruption.search.pods_elsewhere import PodsElsewhere
from tenon.disruption.situation import Situation
from tenon.disruption.why_stays import WhyStays, leaving_text
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.node_names import whole_name
from tenon.kube.records import NodeRecord
from tenon.kube.timestamps import format_instant
from tenon.messages.base import REBOOT
from tenon.messages.disruption import OpenCommand
from tenon.provisioning.gates import FeatureGates
from tenon.rollout.waves import RolloutNode, foreseen_waves
from tenon.schedule.node_pools import closed_clause
from tenon.scheduling.deadline import never
from tenon.scheduling.model import InstanceType, Plan
from tenon.simulation.decisions import PlanQuestion, price_of
from tenon.simulation.document import DisruptionPart, Document, command_entry
from tenon.simulation.model_after import model_after
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView

NEVER = datetime.max.replace(tzinfo=UTC)
"""The creation of a NodeClaim that states none: it is the youngest."""


@dataclass(frozen=True, slots=True)
class SimulatedDisruption:
    """The commands with all that the document says about them, and what they were decided for."""

    part: DisruptionPart
    situation: Situation
    """The nodes and policies."""


def disruption_of(
    view: PlanningView,
    cache: ClusterCache,
    plan: Plan,
    question: PlanQuestion,
    now: datetime,
    *,
    gates: FeatureGates,
    reboots: bool,
    only: str | None = None,
    open_commands: Mapping[str, OpenCommand],
) -> SimulatedDisruption:
    """Return the commands that the worker would give now, within budgets, once the plan is carried out.

    Nodes that the plan gives pods stay. The search has no time limit, so that the same input gives the same commands.
    ``gates``: those of the worker. ``reboots``: Karpenter's policies of node repair may reboot nodes. ``only``: the
    Node, with or without its domain, or NodeClaim that is asked about; None for all. ``open_commands``: those under
    way, those that wait for a person, and those that failed, by NodeClaim.

    Raises:
        AmbiguousNameError: ``only`` stands for several Nodes.
    """
    managed = view.managed_nodes()
    off_commands = list(_scheduled_off(view, cache, managed, now))
    off_claims = frozenset(candidate.node.claim for command in off_commands for candidate in command.candidates)
    nodes = {node.claim: cache.node_of(claim) for node in managed if (claim := cache.claims.get(node.claim))}
    situation = _situation_after(view, plan, question, now, open_commands)
    repair = stated_repair(view.repair_policies, view.node_pools, reboots=reboots) if gates.node_repair else no_repair
    situation = replace(
        situation,
        under_command=situation.under_command | off_claims,
        repair=repair_now(repair, managed),
    )
    methods = moving_methods(
        never,
        DecisionGates(gates.spot_to_spot_consolidation, gates.terminate_first_drift, gates.terminate_first_repair),
    )
    foreseen = forecast(situation, methods, off_commands)
    commands = (*off_commands, *foreseen.decision.commands)
    why = WhyStays(
        foreseen.later,
        blocked=foreseen.decision.blocked,
        spot_to_spot=gates.spot_to_spot_consolidation,
    )
    leaving = {candidate.node.claim for command in commands for candidate in command.candidates}
    if only is not None:
        only = whole_name(only, (node.node for node in managed), (node.claim for node in managed))
    all_claims = {node.claim for node in managed}
    shown_claims = {node.claim for node in managed if only is None or only in (node.node, node.claim)}
    part = DisruptionPart(
        commands=_commands(commands, nodes, question.types, shown_claims),
        staying=[
            _staying(node, cache.claims.get(node.claim), nodes.get(node.claim), why, question.types)
            for node in sorted(managed, key=lambda node: (node.node, node.claim))
            if node.claim in shown_claims - leaving
        ],
        totals=_totals(nodes, commands, question.types),
        rollouts=list(_rollouts(view, cache)),
        forecast=[
            {
                "at": format_instant(item.at),
                "inSeconds": round((item.at - now).total_seconds()),
                "commands": _commands(item.commands, nodes, question.types, all_claims),
                **({"atTheLatest": True} if item.is_latest else {}),
            }
            for item in foreseen.forecast_times
        ],
        consolidated_elsewhere=sorted(
            candidate.node.node
            for command in commands
            if command.reason.traits.is_consolidation
            for candidate in command.candidates
            if candidate.node.claim not in shown_claims
        ),
    )
    return SimulatedDisruption(part, situation)


def _situation_after(
    view: PlanningView, plan: Plan, question: PlanQuestion, now: datetime, open_commands: Mapping[str, OpenCommand]
) -> Situation:
    """The situation, without repair, once the plan is carried out."""
    managed = view.managed_nodes()
    # The workflow lists the nodes of its commands until the planner answers, which may be an hour after they are gone.
    open_commands = commands_without(open_commands, claims_of_finished_commands(open_commands, managed, now))
    model = model_after(plan, view, question, view.snapshot().node_details, view.wave_pools())
    return Situation(
        nodes=PodsElsewhere().added_to(managed, model.details, now),
        policies=policies_of(view.node_pools(), view.disruption_freezes()),
        now=now,
        under_command=claims_of(open_commands, postponed=False),
        postponed=claims_of(open_commands, postponed=True),
        approvals=approvals_of(open_commands),
        awaiting_replacement=awaiting_replacement(open_commands),
        nominated=hosts_of(open_commands).union(
            name for name, pods in plan.placements.items() if any(not pod.buffer for pod in pods)
        ),
        buffer_hosts=frozenset(name for name, pods in plan.placements.items() if any(pod.buffer for pod in pods)),
        model=model,
        rollouts=view.rollouts(),
        slowed=slowed_by_conditions({pool.metadata.name: pool.status.conditions for pool in view.node_pools()}),
    )


def _scheduled_off(
    view: PlanningView, cache: ClusterCache, managed: Sequence[ManagedNode], now: datetime
) -> Iterator[Command]:
    """Yield the removals of nodes whose NodePool a NodeSchedule has off, as commands."""
    schedules_ask = view.schedules.now()
    staying = {node.claim: node for node in managed if not node.leaving}
    for pool in view.specs():
        name = pool.metadata.name
        demand = schedules_ask.pools.get(name)
        if demand is None or not demand.off:
            continue
        claims = [claim for claim in cache.claims if claim.pool == name and claim.name in staying]
        for claim in off_pool(pool, claims, view.disruption_freezes(), now).leaving:
            clause = closed_clause(name, schedules_ask)
            yield Command(
                method="NodeSchedule",
                reason=Reason.SCHEDULED_OFF,
                consolidation_type="",
                candidates=(Candidate(staying[claim.name], since=now),),
                explanation=(f"NodePool {name}: {clause}", "Its pods go to other nodes, or wait"),
            )


def _rollouts(view: PlanningView, cache: ClusterCache) -> Iterator[Document]:
    """Yield the waves of each NodePool under a rollout that has nodes of an earlier version."""
    for pool, rollout in sorted(view.rollouts().items()):
        record = cache.versions.rollouts.get(rollout.rollout)
        model = view.node_rollout(record)[0] if record is not None else None
        nodes = [
            RolloutNode(
                claim=claim.name,
                zone=claim.labels.get(labels.ZONE, ""),
                created=claim.created_at or NEVER,
                outdated=claim.is_true("Drifted"),
                initialized=claim.initialized,
            )
            for claim in cache.claims
            if claim.pool == pool and not claim.deleting
        ]
        if model is None or not any(node.outdated for node in nodes):
            continue
        strategy = model.spec.strategy
        waves = [
            {
                "wave": wave.index + 1,
                "goal": strategy.waves[wave.index],
                "zone": wave.segment,
                "nodeClaims": list(claims),
            }
            for wave, claims in foreseen_waves(nodes, strategy)
        ]
        yield {"nodeRollout": rollout.rollout, "nodePool": pool, "phase": rollout.phase.value, "waves": waves}


def _commands(
    commands: Sequence[Command],
    nodes: Mapping[str, NodeRecord | None],
    types: Sequence[InstanceType],
    shown_claims: Set[str],
) -> list[Document]:
    """Format the commands with a NodeClaim that is wanted. One with several empty nodes is one entry for each."""
    entries: list[Document] = []
    number = 1
    for command in commands:
        parts = (
            [command]
            if command.moves_pods
            else [replace(command, candidates=(candidate,)) for candidate in command.candidates]
        )
        for part in parts:
            candidates = {
                candidate.node.claim: node
                for candidate in part.candidates
                if (node := nodes.get(candidate.node.claim)) is not None
            }
            if len(candidates) == len(part.candidates) and not shown_claims.isdisjoint(candidates):
                price = sum(price_of(node.labels, types) for node in candidates.values())
                names = {claim: node.name for claim, node in candidates.items()}
                entries.append(command_entry(part, names, price, number))
                number += len(part.new_claims)
    return entries


def _totals(
    nodes: Mapping[str, NodeRecord | None], commands: Sequence[Command], types: Sequence[InstanceType]
) -> Document:
    """Count the nodes of NodePools now, and once the commands are carried out with the cheapest types they allow."""
    prices = {claim: price_of(node.labels, types) for claim, node in nodes.items() if node is not None}
    leaving = [
        candidate.node.claim
        for command in commands
        if command.decision != REBOOT
        for candidate in command.candidates
        if candidate.node.claim in prices
    ]
    new = [claim.price for command in commands for claim in command.new_claims]
    before = sum(prices.values())
    return {
        "nodesBeforeDisruption": len(prices),
        "nodesAfterDisruption": len(prices) - len(leaving) + len(new),
        "pricePerHourBeforeDisruption": round(before, 6),
        "pricePerHourAfterDisruption": round(before - sum(prices[claim] for claim in leaving) + sum(new), 6) + 0.0,
    }


def _staying(
    node: ManagedNode,
    claim: ClaimRecord | None,
    record: NodeRecord | None,
    why: WhyStays,
    types: Sequence[InstanceType],
) -> Document:
    sentences = (leaving_text(claim),) if node.leaving and claim is not None else why.sentences(node)
    return {
        "node": node.node,
        "nodeClaim": node.claim,
        "nodePool": node.pool,
        "pricePerHour": round(price_of(record.labels, types), 6) if record is not None else 0.0,
        "why": list(sentences),
    }
