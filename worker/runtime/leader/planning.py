"""The parts of a leader that decide from the cache, joined as the settings say: planning, disruption, repair."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from activities.disruption.disrupting import Disruptor
from activities.disruption.forecasting import Forecaster
from activities.disruption.move_events import MoveEvents
from activities.disruption.move_validation import MoveValidator
from activities.disruption.moves import MoveFinder, methods_within
from activities.disruption.pass_pace import PassPace
from activities.disruption.repair_source import RepairSource, no_repair, stated_repair
from activities.disruption.saving_measurement import SavingMeasurement
from activities.disruption.situation_reader import SituationReader
from activities.disruption.situation_reporting import SituationReporter
from activities.disruption.situation_source import SituationSource
from activities.disruption.slowed_pools import SlowedPools
from activities.disruption.supply import SupplyReader
from activities.provisioning.account_commitments import CommitmentStore
from activities.provisioning.batching import Batcher, BatchWindow
from activities.provisioning.buffers import BufferRoom
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.live_solving import LiveSolver
from activities.provisioning.plan_recording import PlanRecorder
from activities.provisioning.planner import BatchPlanner
from activities.provisioning.spot_scores import SpotScoreStore
from activities.record.decisions import DecisionRecorder
from tenon.disruption.methods.gates import DecisionGates
from tenon.provisioning.planning_policy import PlanPolicy
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.cost.sampling import LatestCost
from worker.controllers.observability.cluster_metrics import ClusterMetrics
from worker.runtime.assembly import Clients
from worker.runtime.memory import return_free_memory
from worker.settings import Settings


@dataclass(frozen=True, slots=True)
class Planning:
    """The parts that decide which nodes pods need. Disruption and the controllers need some of them too."""

    view: PlanningView
    policy: PlanPolicy
    room: BufferRoom
    refusals: LaunchRefusals
    batcher: Batcher
    planner: BatchPlanner
    commitments: CommitmentStore
    spot_scores: SpotScoreStore
    cost: LatestCost = field(default_factory=LatestCost)


@dataclass(frozen=True, slots=True)
class Disruption:
    """The parts that decide which nodes leave. The controllers need some of them too."""

    slowed: SlowedPools
    repair: RepairSource
    supply: SupplyReader
    moves: MoveFinder
    disruptor: Disruptor
    forecaster: Forecaster
    savings: SavingMeasurement


def plan_parts(
    settings: Settings, clients: Clients, cache: ClusterCache, cluster_metrics: ClusterMetrics | None
) -> Planning:
    """Return the parts. ``cluster_metrics``: hears which pods plans are for; None while metrics are off."""
    view = PlanningView(cache, limits_total_cost=bool(settings.max_hourly_cost))
    policy, room = settings.plan_policy(), BufferRoom(awaited=True)
    window = BatchWindow(settings.batch_idle_duration.total_seconds(), settings.batch_max_duration.total_seconds())

    def refused_otherwise(key: str) -> None:
        """Look again at the NodePool of a breaker, or at all if it is that of an EC2NodeClass or of the account."""
        for name in [key] if cache.pools.get(key) is not None else list(cache.pools.keys()):
            cache.changes.publish(Topic.POOL, name)

    refusals = LaunchRefusals(refused_otherwise)
    batcher = Batcher(view, buffers=room, window=window, refusals=refusals)
    commitments, spot_scores = CommitmentStore(), SpotScoreStore()
    planner = BatchPlanner(
        view,
        clients.ec2,
        clients.kube,
        clients.recorder,
        batcher,
        solver=LiveSolver(view, batcher, policy, commitments=commitments, spot_scores=spot_scores),
        record=PlanRecorder(clients.record, clients.plan_inputs),
        decided=cluster_metrics.pod_times.decided if cluster_metrics is not None else None,
    )
    return Planning(
        view=view,
        policy=policy,
        room=room,
        refusals=refusals,
        batcher=batcher,
        planner=planner,
        commitments=commitments,
        spot_scores=spot_scores,
    )


def disruption_parts(settings: Settings, clients: Clients, cache: ClusterCache, planning: Planning) -> Disruption:
    """Return the parts. They move pods as ``planning`` plans for them."""
    view, batcher, gates = planning.view, planning.batcher, settings.feature_gates
    slowed = SlowedPools(lambda pool: cache.changes.publish(Topic.POOL, pool))
    is_repaired = gates.node_repair and not settings.legacy_node_repair
    reboots = settings.aws_feature_gates.reboot_for_repair
    repair = stated_repair(view.repair_policies, view.node_pools, reboots=reboots) if is_repaired else no_repair
    decision_gates = DecisionGates(
        gates.spot_to_spot_consolidation, gates.terminate_first_drift, gates.terminate_first_repair
    )
    methods = partial(methods_within, gates=decision_gates)
    decisions = (
        DecisionRecorder(clients.record, clients.plan_inputs, settings.cluster_name, decision_gates)
        if clients.plan_inputs is not None
        else None
    )
    supply = SupplyReader(view, clients.ec2, batcher.refusals)
    move_events = MoveEvents(clients.recorder, view.node_uid)
    reader = SituationReader(
        view,
        nominated_nodes=batcher.nominated_nodes,
        buffers=batcher.buffers,
        repair=repair,
        freezes=view.disruption_freezes,
    )
    situations = SituationSource(
        view,
        supply,
        batcher,
        reader,
        planning.policy,
        slowed,
        commitments=planning.commitments,
        spot_scores=planning.spot_scores,
    )
    moves = MoveFinder(
        view,
        situations,
        move_events,
        methods,
        PassPace(view, batcher, batcher.refusals),
        free_memory=return_free_memory,
        decisions=decisions,
    )
    disruptor = Disruptor(
        view,
        situations=reader,
        moves=moves,
        validator=MoveValidator(view, situations, move_events, batcher.refusals),
        reporter=SituationReporter(view, clients.recorder),
        slowed=slowed,
        decisions=decisions,
    )
    return Disruption(
        slowed=slowed,
        repair=repair,
        supply=supply,
        moves=moves,
        disruptor=disruptor,
        forecaster=Forecaster(view, situations, methods, free_memory=return_free_memory),
        savings=SavingMeasurement(view, supply, move_events, planning.commitments),
    )
