"""Looks for disruption commands that move pods, in a thread on a snapshot of the cluster.

A pass simulates many placements, so it takes longer than a pass for empty nodes and never delays one. `pass_pace` says
when it begins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Protocol, TypeVar

from temporalio.exceptions import ApplicationError

from activities import loggers, metrics
from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView, DisruptionCluster, Types
from activities.disruption import decision_metrics, search_spans
from activities.disruption.freeze_source import FreezeSource, no_freezes
from activities.disruption.move_events import MoveEvents
from activities.disruption.pass_pace import PassPace
from activities.disruption.repair_source import RepairSource, no_repair, repair_now
from activities.disruption.slowed_pools import SlowedPools
from activities.kubernetes.events import EventPublisher
from activities.provisioning.account_commitments import CommitmentStore
from activities.provisioning.batching import Batcher
from activities.provisioning.buffers import BufferRoom
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.offerings import instance_types_by_pool
from activities.provisioning.solving import Limit
from activities.record.decisions import DecisionRecorder
from activities.tracing import spans
from activities.tracing.catalogue import Phase
from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason, snake_case, traits_of
from tenon.apis.shortage_price import price_factor, shortage_annotation
from tenon.disruption.commands.command_messages import arrivals_of, command_id, pods_sent, to_message
from tenon.disruption.commands.leaving_together import leaving_together
from tenon.disruption.commands.open_commands import awaiting_replacement, claims_of, hosts_of
from tenon.disruption.covered_nodes import covered_details, with_coverage
from tenon.disruption.deciding import decide
from tenon.disruption.history.savings import measured, slowed_pools
from tenon.disruption.methods import moving_methods
from tenon.disruption.methods.base import Method
from tenon.disruption.model import (
    ClusterModel,
    Command,
    Decision,
    ManagedNode,
    Situation,
    model_of,
    policies_of,
)
from tenon.disruption.rules.approvals import approvals_of
from tenon.disruption.search.pods_elsewhere import PodsElsewhere
from tenon.disruption.search.size_limits import MAX_OPEN, how_many_fit
from tenon.disruption.validation import Validation, changed_pool, still_allowed, validated
from tenon.ec2.refusals.unavailable import next_attempt_of
from tenon.evolve import evolve
from tenon.kube.pod import Pod
from tenon.messages.disruption import (
    DisruptionCommand,
    MeasuredSaving,
    OpenCommand,
    PassCursor,
    Replacement,
    StepResult,
)
from tenon.messages.provisioning import LaunchBreaker
from tenon.provisioning.claims import name_after, replacement_claim_body
from tenon.provisioning.launch_breakers import held_as_a_whole, without_held_types
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import problem_of, scheduling_pools
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.static_capacity import usable_static_pools
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import PlannedClaim
from tenon.scheduling.type_table import TypeTables

log = loggers.DISRUPTION

MAX_COMMANDS = 50
"""How many commands of one pass start. Each is validated on the whole cluster, and the next pass finds the others. By
then, kube-scheduler has put pods of the first ones on nodes that should have left too, so the limit is not lower."""
MAX_LAUNCHING = 25
"""How many of them launch nodes. NodeClaims are large, and all commands of a pass must fit in a message."""
MAX_SECONDS = 60.0
"""Seconds after which a pass gives what it has found."""
MAX_REMEMBERED = 1000
"""The maximum number of commands of which new hosts are remembered."""
DRIFT_SHARE = 0.5
"""The part of this time that drift may use. Its candidates may all be nodes that cannot leave, in every pass."""

Result = TypeVar("Result")


class Compute(Protocol):
    """Runs a function in a thread."""

    async def __call__(self, function: Callable[..., Result], /, *arguments: object) -> Result:
        """Return what the function returns."""
        ...


MethodsFor = Callable[[Limit], Sequence[Method]]
"""Returns the methods that move pods, which stop when the time limit is over."""


def methods_within(
    limit: Limit,
    *,
    spot_to_spot: bool = False,
    terminate_first_drift: bool = False,
    terminate_first_repair: bool = False,
) -> Sequence[Method]:
    """Return the methods that move pods. Drift comes first and leaves a share of the time for consolidation.

    ``spot_to_spot``: the feature gate SpotToSpotConsolidation. ``terminate_first_drift``: TerminateFirstDrift.
    ``terminate_first_repair``: TerminateFirstRepair.
    """
    return moving_methods(
        limit,
        spot_to_spot=spot_to_spot,
        terminate_first_drift=terminate_first_drift,
        terminate_first_repair=terminate_first_repair,
        drift_expired=limit.part(DRIFT_SHARE),
    )


class _Supply:
    """What the NodePools can buy: as usual, and in the version that a rollout gives to the nodes of its wave."""

    def __init__(self, usual: Overlaid, waves: Overlaid) -> None:
        self.usual = usual
        self._waves = waves
        self._usual_pools = {pool.metadata.name: pool for pool, _ in usual.pools_with_types}
        self._wave_pools = {pool.metadata.name: pool for pool, _ in waves.pools_with_types}

    def of(self, command: Command, planned: PlannedClaim) -> tuple[NodePool, Overlaid]:
        """The NodePool of a replacement, in the version that it gets, and the overlays of that."""
        is_of_rollout = command.reason is Reason.DRIFTED and planned.pool == command.candidates[0].node.pool
        if is_of_rollout and planned.pool in self._wave_pools:
            return self._wave_pools[planned.pool], self._waves
        return self._usual_pools[planned.pool], self.usual


class MoveFinder:
    """Finds and validates commands that move pods. One pass runs at a time."""

    def __init__(
        self,
        view: ClusterView,
        types: Types,
        batcher: Batcher,
        recorder: EventPublisher,
        methods: MethodsFor,
        policy: PlanPolicy | None = None,
        buffers: BufferRoom | None = None,
        refusals: LaunchRefusals | None = None,
        slowed: SlowedPools | None = None,
        now: Callable[[], datetime] = utc_now,
        free_memory: Callable[[], None] = lambda: None,
        repair: RepairSource = no_repair,
        freezes: FreezeSource = no_freezes,
        decisions: DecisionRecorder | None = None,
        commitments: CommitmentStore | None = None,
    ) -> None:
        """``policy``: the operator's settings that affect plans. ``buffers``: where CapacityBuffers keep room.

        ``refusals``: what EC2 refuses, which no replacement is made of. ``slowed``: the pools whose moves do not pay.
        ``free_memory`` is called in a thread after each pass, because its model of the cluster is large. ``repair``:
        what node repair does. ``freezes``: returns the DisruptionFreezes as they are now.
        ``decisions``: keeps what a pass decided and what it decided from; None for nothing.
        ``commitments``: the Reserved Instances and Savings Plans that cover nodes.
        """
        self._commitments = commitments or CommitmentStore()
        self._decisions = decisions
        self._view = view
        self._types = types
        self._batcher = batcher
        self._events = MoveEvents(recorder)
        self._blocked_at: dict[str, datetime] = {}
        """By NodeClaim, when a method last found that it cannot leave."""
        self._why_blocked: dict[str, str] = {}
        """By NodeClaim, why it could not leave in the last pass that reached it."""
        self._elsewhere = PodsElsewhere()
        self._closed_destinations = decision_metrics.ClosedDestinations()
        self._tables = TypeTables()
        """The index of the instance types, as the last pass left it."""
        self._methods = methods
        self._policy = policy or PlanPolicy()
        self._buffers = buffers or BufferRoom()
        self._refusals = refusals or LaunchRefusals(now=now)
        self._slowed = slowed or SlowedPools()
        self._now = now
        self._free_memory = free_memory
        self._repair = repair
        self._freezes = freezes
        self._pass: asyncio.Task[list[DisruptionCommand]] | None = None
        self._limit: Limit | None = None
        self._pace = PassPace(view, batcher, self._refusals)
        self._new_hosts: dict[str, frozenset[str]] = {}
        """By command that takes other replacements than it was decided with, the NodeClaims that its pods move to."""
        self._cursor: PassCursor | None = None
        """Where the next pass goes on; None until it is known."""

    def close(self) -> None:
        """End the pass that runs."""
        self._events.close()
        if self._limit is not None:
            self._limit.end()
        if self._pass is not None:
            self._pass.cancel()

    def start(
        self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand]
    ) -> asyncio.Task[list[DisruptionCommand]] | None:
        """Start a pass if one is due. Returns the pass that runs, if any.

        Args:
            nodes: all nodes.
            open_commands: the open and the failed commands, by NodeClaim.
        """
        if self._pass is not None or not self._pace.is_due() or len(open_commands) >= MAX_OPEN:
            return self._pass
        if self._pace.lets_begin(self._outline(nodes, open_commands), new_round=self._round_is_over()):
            self._pass = asyncio.create_task(self._find_and_free(nodes, open_commands))
        return self._pass

    def _round_is_over(self) -> bool:
        """Whether the next pass begins a round: the last one did not leave nodes for it."""
        return self._cursor is None or not self._cursor.more

    @property
    def cursor(self) -> PassCursor | None:
        """Where the next pass goes on, for the workflow, which keeps it; None until `resume` says it."""
        return self._cursor

    def why_blocked(self) -> Mapping[str, str]:
        """By NodeClaim, why it cannot leave although it should, each in a clause."""
        return self._why_blocked

    def resume(self, cursor: PassCursor) -> None:
        """Go on where the passes of an earlier leader ended."""
        self._cursor = cursor

    def due_in(self) -> float:
        """Return in how many seconds `start` may start a pass. A pass that runs ends by itself."""
        if self._pass is not None:
            return MAX_SECONDS
        return self._pace.due_in()

    def take(self, situation: Situation) -> list[DisruptionCommand]:
        """Return the commands of the pass that ended, without those that are not allowed any more.

        ``situation``: the nodes and the open commands as they are now. It needs no model.
        """
        finished_pass = self._pass
        if finished_pass is None or not finished_pass.done():
            return []
        self._pass = None
        if finished_pass.cancelled():
            return []
        if (error := finished_pass.exception()) is not None:
            self._pace.retry_soon()
            log.error("The worker failed to search for nodes to disrupt and retries", exc_info=error)
            return []
        return still_allowed(finished_pass.result(), situation)

    async def validate(self, command: DisruptionCommand, open_commands: Mapping[str, OpenCommand]) -> StepResult:
        """Return why the command must not be carried out any more, or what is carried out in its place (DIS-46).

        ``open_commands``: the open and the failed commands, by NodeClaim.

        Raises:
            ApplicationError: the worker has just started and does not know the cluster yet. Temporal retries.
        """
        if not (self._view.synced() and self._buffers.known):
            raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
        if command.replacements:
            await self._refusals.refresh()  # a launch that succeeded may have been refused cheaper types
        limit = Limit(MAX_SECONDS / 2)
        others = {claim: entry for claim, entry in open_commands.items() if entry.command != command.id}
        situation, supply = await self._situation(self._view.managed_nodes(), others, asyncio.to_thread)
        validation = await asyncio.to_thread(validated, command, situation, limit)
        if validation.is_full and command.approval is not None:
            return StepResult(waits=validation.why)
        if not (validation.why or validation.instead) and command.approval is not None:
            validation = Validation(changed_pool(command, self._view.node_pools()))
        if validation.instead is None:
            if validation.why:
                metrics.FAILED_VALIDATIONS.labels(command.consolidation_type).inc()
                await self._events.rejected(command, validation.why)
            return StepResult(failure=validation.why)
        log.info(
            "A disruption command takes other replacements than it was decided with",
            extra={
                "command": command.id,
                "nodeclaims": [candidate.claim for candidate in command.candidates],
                "replacements": len(validation.instead.replacements),
            },
        )
        winners = self._winners(situation, supply.usual)
        message = await asyncio.to_thread(
            partial(self._message, validation.instead, situation.model, supply, winners, ident=command.id)
        )
        self._remember_hosts(message)
        return StepResult(instead=evolve(message, leaves_from=command.leaves_from, approval=command.approval))

    async def measure(self, command: DisruptionCommand, leaving_claims: Collection[str]) -> dict[str, MeasuredSaving]:
        """Return what a command saves, by NodePool; empty if a price is not known. Consolidation says it in an event.

        ``leaving_claims``: the NodeClaims that leave.

        Raises:
            ApplicationError: the worker has just started and does not know the cluster yet. Temporal retries.
        """
        if not self._view.synced():
            raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
        prices: dict[str, float] = {}
        if command.replacements:
            overlaid = await self.types_by_pool()
            listed = await asyncio.to_thread(self._view.snapshot().node_details, overlaid.types_by_pool())
            coverage = await asyncio.to_thread(self._commitments.coverage, list(self._view.all_claims()))
            details = covered_details(listed, coverage)
            prices = {
                replacement.name: details[replacement.name].price
                for replacement in command.replacements
                if replacement.name in details
            }
        savings = measured(command, leaving_claims, prices) or {}
        for pool, saving in savings.items():
            metrics.COMMAND_SAVINGS.labels(pool, snake_case(command.reason)).inc(max(0.0, saving.reached))
        if traits_of(command.reason).counts_savings:
            await self._events.measured(command, savings, self._view.node_pools())
            for pool, saving in savings.items():
                metrics.PREDICTED_SAVINGS.labels(pool).inc(max(0.0, saving.predicted))
                metrics.REACHED_SAVINGS.labels(pool).inc(max(0.0, saving.reached))
        return savings

    async def types_by_pool(self) -> Overlaid:
        """What the pools can buy."""
        find_class = self._view.node_class
        node_pools = self._view.node_pools()
        usable = usable_pools(node_pools, find_class, self._view)
        pools = [*usable, *usable_static_pools(node_pools, find_class, self._view)]
        return await instance_types_by_pool(self._view, self._types, pools, self._refusals.unavailable())

    async def _find_and_free(
        self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand]
    ) -> list[DisruptionCommand]:
        try:
            with search_spans.search(Phase.PASS, self._now()):
                return await self._find(nodes, open_commands)
        finally:
            await asyncio.to_thread(self._free_memory)

    async def _find(
        self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand]
    ) -> list[DisruptionCommand]:
        limit = self._limit = Limit(MAX_SECONDS)
        self._pace.pass_begins(new_round=self._round_is_over())
        try:
            situation, supply = await self._situation(nodes, open_commands, self._compute)
            assert situation.model is not None
            self._tables = situation.model.tables
            methods = self._methods(limit)
            decision = await self._compute(decide, situation, methods, search_spans.method_span)
            _count_timeouts(methods, limit)
            whole_decision, decision = decision, replace(decision, commands=_first(decision.commands))
            self._cursor = decision.cursor or self._cursor or PassCursor()  # consolidation that failed names none
            complete = not (decision.failed or decision.is_cut or limit())
        except BaseException:
            self._pace.pass_failed()
            raise
        finally:
            self._limit = None
        self._pace.pass_ends(
            found_moves=bool(decision.commands),
            ends_round=complete and self._round_is_over(),
            at_once=any(command.reason is Reason.UNHEALTHY for command in decision.commands),
        )
        if self._decisions is not None:
            self._decisions.decided(situation, whole_decision, complete=complete)
        winners = self._winners(situation, supply.usual)
        with spans.phase(Phase.COMMANDS):
            messages = await asyncio.to_thread(
                lambda: [self._message(command, situation.model, supply, winners) for command in decision.commands]
            )
        messages = messages[: how_many_fit(messages)]
        decision = replace(decision, commands=decision.commands[: len(messages)])
        messages = search_spans.recorded(decision, messages, len(nodes), complete=complete)
        _report(decision, methods, situation)
        self._closed_destinations.report(situation)
        self._events.decided(decision, situation, self._view.node_pools())
        self._remember_blocked(decision, nodes)
        return leaving_together(messages, self._now())

    def _winners(self, situation: Situation, overlaid: Overlaid) -> TypeChoiceExplainer:
        """Explains why a replacement has its instance type, and what it would usually cost."""
        assert situation.model is not None
        attempted_at = partial(next_attempt_of, self._refusals.next_attempts())
        return TypeChoiceExplainer(situation.model.problem, overlaid.types_by_pool(), attempted_at)

    async def _situation(
        self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand], compute: Compute
    ) -> tuple[Situation, _Supply]:
        """The situation with its model, and what the pools can buy."""
        with spans.phase(Phase.TYPES):
            overlaid = await self.types_by_pool()
            waves = await self._wave_types()
        with spans.phase(Phase.PROBLEM):
            snapshot = self._view.snapshot()
            reserved = self._batcher.reserved()
            breakers = self._refusals.breakers(self._view.node_pools())
            of_waves = self._refusals.breakers(self._view.wave_pools())
            coverage = await compute(self._commitments.coverage, list(self._view.all_claims()))
            model = await compute(
                _model, snapshot, overlaid, waves, self._policy, reserved, breakers, of_waves, self._tables
            )
            model = await compute(with_coverage, model, coverage)
            elsewhere = await compute(self._elsewhere.added_to, nodes, model.details, self._now())
        return replace(self._outline(elsewhere, open_commands), model=model), _Supply(overlaid, waves)

    async def _wave_types(self) -> Overlaid:
        """What the NodePools can buy of which a rollout replaces nodes now, in the version that these get."""
        find_class, pools = self._view.node_class, self._view.wave_pools()
        if not pools:
            return Overlaid([], {})
        usable = [*usable_pools(pools, find_class, self._view), *usable_static_pools(pools, find_class, self._view)]
        return await instance_types_by_pool(self._view, self._types, usable, self._refusals.unavailable())

    def _outline(self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand]) -> Situation:
        """The situation without its model, which takes long to build."""
        return Situation(
            nodes=nodes,
            policies=policies_of(self._view.node_pools(), self._freezes()),
            now=self._now(),
            under_command=claims_of(open_commands, postponed=False),
            approvals=approvals_of(open_commands),
            awaiting_replacement=awaiting_replacement(open_commands),
            postponed=claims_of(open_commands, postponed=True),
            nominated=frozenset(self._batcher.nominated_nodes()) | self._hosts_of(open_commands),
            buffer_hosts=self._buffers.hosts(),
            slowed=slowed_pools(self._slowed.savings, open_commands, self._now()),
            cursor=self._cursor or PassCursor(),
            blocked_at=dict(self._blocked_at),
            repair=repair_now(self._repair, nodes),
            rollouts=self._view.rollouts(),
        )

    def _hosts_of(self, open_commands: Mapping[str, OpenCommand]) -> frozenset[str]:
        """The NodeClaims that open commands move pods to (DIS-62). The workflow does not know the new ones."""
        still_open = {entry.command for entry in open_commands.values() if not entry.postponed}
        return hosts_of(open_commands).union(
            *(self._new_hosts.get(command_id, frozenset()) for command_id in still_open)
        )

    def _remember_hosts(self, command: DisruptionCommand) -> None:
        self._new_hosts[command.id] = frozenset(command.arrivals)
        while len(self._new_hosts) > MAX_REMEMBERED:
            del self._new_hosts[next(iter(self._new_hosts))]

    async def _compute(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a function in a thread and add its CPU time, so that waiting for EC2 or for a core does not count."""

        def timed() -> tuple[Result, float]:
            began = time.thread_time()
            return function(*arguments), time.thread_time() - began

        result, seconds = await asyncio.to_thread(timed)
        self._pace.add(seconds)
        return result

    def _remember_blocked(self, decision: Decision, nodes: Sequence[ManagedNode]) -> None:
        """Remember which nodes cannot leave although they should. Each is logged once."""
        now = self._now()
        claim_names = {node.claim for node in nodes}
        self._blocked_at = {claim: at for claim, at in self._blocked_at.items() if claim in claim_names}
        earlier = {claim: why for claim, why in self._why_blocked.items() if claim in claim_names}
        self._why_blocked = {**(earlier if decision.is_cut else {}), **decision.blocked}
        for claim, why in decision.blocked.items():
            if claim not in self._blocked_at:
                log.info("A node cannot leave although it should", extra={"nodeclaim": claim, "error": why})
            self._blocked_at[claim] = now

    def _message(
        self,
        command: Command,
        model: ClusterModel | None,
        supply: _Supply,
        winners: TypeChoiceExplainer,
        *,
        ident: str = "",
    ) -> DisruptionCommand:
        """The command's message. ``ident``: the ID of the command that it takes the place of."""
        assert model is not None  # methods that move pods need it
        ident = ident or command_id(command, self._now())
        replacements = []
        for number, planned in enumerate(command.replacements):
            name = name_after(planned.pool, f"{ident}/{number}")
            why = "\n".join(command.explanation)
            pool, overlaid = supply.of(command, planned)
            body = replacement_claim_body(planned, pool, name, ident, command.reason, why)
            factor = price_factor(pool.metadata.annotations)
            body["metadata"]["annotations"] |= overlaid.overlay_annotations(planned.pool, planned.instance_types)
            body["metadata"]["annotations"] |= shortage_annotation(planned.price, winners.usual_price(planned), factor)
            price = round(planned.price, 6)
            replacements.append(Replacement(name=name, pool=planned.pool, body=body, price=price))
        pods = {candidate.node.claim: model.details[candidate.node.claim].pods for candidate in command.candidates}
        prices = {candidate.node.claim: model.details[candidate.node.claim].price for candidate in command.candidates}
        names = [replacement.name for replacement in replacements]
        surge = [pod_key for candidate in command.candidates for pod_key in model.details[candidate.node.claim].surges]
        return to_message(
            command,
            ident=ident,
            replacements=replacements,
            pods=pods,
            prices=prices,
            arrivals=arrivals_of(command, model, names, self._now()),
            arriving_workloads=pods_sent(command, model, names),
            surge=surge,
        )


def _first(commands: Sequence[Command]) -> tuple[Command, ...]:
    """Return the commands to start now, without those beyond the limits."""
    first_commands: list[Command] = []
    launching = 0
    for command in commands:
        launching += bool(command.replacements)
        if len(first_commands) < MAX_COMMANDS and not (command.replacements and launching > MAX_LAUNCHING):
            first_commands.append(command)
    return tuple(first_commands)


def _model(
    snapshot: DisruptionCluster,
    overlaid: Overlaid,
    waves: Overlaid,
    policy: PlanPolicy,
    reserved: Mapping[str, Sequence[Pod]],
    breakers: Mapping[str, LaunchBreaker],
    of_waves: Mapping[str, LaunchBreaker],
    tables: TypeTables,
) -> ClusterModel:
    static = {pool.metadata.name for pool, _ in overlaid.pools_with_types if pool.spec.replicas is not None}
    problem = problem_of(
        snapshot, [], without_held_types(overlaid.pools_with_types, breakers, breakers), policy, reserved
    )
    details = snapshot.node_details(overlaid.types_by_pool())  # the nodes of held types have their prices all the same
    model = model_of(problem, details, static, held_as_a_whole(breakers), tables)
    wave_pools = scheduling_pools(snapshot, without_held_types(waves.pools_with_types, of_waves, of_waves), policy)
    return replace(model, wave_pools={pool.name: pool for pool in wave_pools}) if wave_pools else model


def _count_timeouts(methods: Sequence[Method], limit: Limit) -> None:
    """Count consolidation that a pass's time limit cut short (MET-33)."""
    if limit():
        for kind in {method.consolidation_type for method in methods} - {""}:
            metrics.CONSOLIDATION_TIMEOUTS.labels(kind).inc()


def _report(decision: Decision, methods: Sequence[Method], situation: Situation) -> None:
    decision_metrics.report(decision, methods)
    decision_metrics.count_moves(decision, situation.policies)
    for command in decision.commands:
        decision_metrics.count(command)
        names = [candidate.node.claim for candidate in command.candidates]
        if command.repair is not None:
            log.info("The worker selected a repair policy", extra={"nodeclaims": names, **command.repair.details()})
        log.info(
            "The worker found nodes to disrupt",
            extra={
                "nodeclaims": names,
                "reason": command.reason,
                "decision": command.decision,
                "replacements": len(command.replacements),
                "saving": round(command.saving, 4),
            },
        )
