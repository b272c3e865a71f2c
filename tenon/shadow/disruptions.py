"""Lets nodes of the model leave: those that Tenon's disruption removes, those that expire, and interrupted ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.commands.command_messages import arrivals_of
from tenon.disruption.commands.leaving_together import VALIDATION_DELAY
from tenon.disruption.deciding import MAX_COMMANDS, decide
from tenon.disruption.decision import Command
from tenon.disruption.history.arrivals import REMEMBERED, Arrival, counted
from tenon.disruption.methods import METHODS, moving_methods
from tenon.disruption.methods.base import Method
from tenon.disruption.methods.gates import DecisionGates
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.situation import Situation
from tenon.disruption.validation import validated
from tenon.kube.pod import Pod
from tenon.kube.timestamps import clock_instant
from tenon.messages.base import REBOOT
from tenon.messages.disruption import PassCursor
from tenon.provisioning.gates import FeatureGates
from tenon.scheduling.deadline import Expired
from tenon.scheduling.model import Plan
from tenon.shadow.cluster import ModelCluster
from tenon.shadow.kube_scheduling import bind, is_plain
from tenon.shadow.nodes import ModelNode, OfferingPrices
from tenon.shadow.pods import WAITS
from tenon.shadow.purchases import add_claims
from tenon.shadow.view import ModelView, ShadowPodFacts
from tenon.shadow.waiting_commands import claims_of, due_commands, waiting
from tenon.simulation.decisions import PlanQuestion
from tenon.simulation.model_after import model_after

VALIDATION_SECONDS = VALIDATION_DELAY.total_seconds()
DRAIN_SECONDS = 30.0
"""Seconds that a node with pods takes to drain and terminate, while no node of the cluster says it."""
INTERRUPTED = "Interrupted"
EXPIRED = str(Reason.EXPIRED)


@dataclass(frozen=True, slots=True)
class Rules:
    """What disruption decisions of the model depend on besides its nodes."""

    policies: Mapping[str, PoolPolicy]
    """By NodePool."""
    facts: ShadowPodFacts
    gates: FeatureGates
    prices: OfferingPrices
    boot: float
    """Seconds until a new node is ready."""
    drain: float
    """Seconds that a node with pods takes to drain and terminate, while it still costs."""
    expired: Expired
    """Ends the search for moves."""
    on_failure: Callable[[str, Exception], None]
    """Hears the name of a method that failed, and why."""


@dataclass(frozen=True, slots=True)
class ModelCommand:
    """A command that the model carried out, for the report."""

    at: float
    """In seconds since the epoch."""
    reason: str
    removed: Sequence[str]
    """The instance types of the nodes that left."""
    bought: Sequence[str]
    """The instance types of their replacements."""
    pods: int
    saving: float
    """Dollars an hour."""
    explanation: Sequence[str]


def remove_empty(view: ModelView, rules: Rules) -> Sequence[ModelCommand]:
    """Let empty nodes leave, and expired ones whose NodePools' budgets choose them. It needs no search."""
    return _decided(view, _situation(view, rules), METHODS, rules)[0]


def look_for_moves(
    view: ModelView, question: PlanQuestion, rules: Rules, cursor: PassCursor | None
) -> tuple[Sequence[ModelCommand], PassCursor | None]:
    """Decide which nodes with pods leave. Returns the commands that need no wait, and where the next pass goes on.

    The others wait in the model until `carry_out_due` carries them out.
    """
    model = model_after(Plan(), view, question, view.node_details(rules.facts))
    gates = rules.gates
    methods = moving_methods(
        rules.expired,
        DecisionGates(gates.spot_to_spot_consolidation, gates.terminate_first_drift, gates.terminate_first_repair),
    )
    situation = replace(_situation_with(model, view, rules), cursor=cursor or PassCursor())
    return _decided(view, situation, methods, rules)


def carry_out_due(view: ModelView, question: PlanQuestion, rules: Rules) -> Sequence[ModelCommand]:
    """Validate the commands that have waited long enough, and carry out those that still hold (DIS-46)."""
    cluster = view.cluster
    carried_out = []
    for due in due_commands(cluster.commands, view.now):
        cluster.commands.remove(due)
        model = model_after(Plan(), view, question, view.node_details(rules.facts))
        validation = validated(due.message, _situation_with(model, view, rules), rules.expired)
        if validation.instead is not None or not validation.why:
            carried_out.append(_carry_out(view, validation.instead or due.command, model, rules))
    return carried_out


def _situation(view: ModelView, rules: Rules) -> Situation:
    """Return the nodes and policies. Nodes that pods of a command are on their way to are left alone (DIS-62)."""
    nodes = view.cluster.nodes
    leaving = frozenset(name for name, node in nodes.items() if not node.stays)
    return Situation(
        nodes=[node for node in view.managed_nodes(view.versions()) if node.pool in rules.policies],
        policies=rules.policies,
        now=clock_instant(view.now),
        under_command=leaving | claims_of(view.cluster.commands),
        nominated=frozenset(name for name, node in nodes.items() if node.awaits_pods_until > view.now),
    )


def _situation_with(model: ClusterModel, view: ModelView, rules: Rules) -> Situation:
    """Return the situation with a model, which says where the pods are that kube-scheduler put on other nodes."""
    situation = _situation(view, rules)
    nodes = view.cluster.pods_elsewhere.added_to(situation.nodes, model.details, situation.now)
    return replace(situation, nodes=nodes, model=model)


def _decided(
    view: ModelView, situation: Situation, methods: Sequence[Method], rules: Rules
) -> tuple[Sequence[ModelCommand], PassCursor | None]:
    """Carry out what the methods decide, or let it wait for its validation.

    Commands that wait for approval are left out: no person looks at a model.
    """
    decision = decide(situation, methods)
    for name, error in decision.failed.items():
        rules.on_failure(name, error)
    commands = [
        command for command in decision.commands if command.approve_within is None and command.decision != REBOOT
    ]
    carried_out = []
    pools = {pool.metadata.name: pool for pool in view.node_pools()}
    for command in commands[:MAX_COMMANDS]:
        if command.moves_pods and command.graceful and situation.model is not None:
            due = view.now + VALIDATION_SECONDS
            view.cluster.commands.append(waiting(command, situation.model, pools, due))
            for name in command.destinations:
                if (host := view.cluster.nodes.get(name)) is not None:
                    host.awaits_pods_until = max(host.awaits_pods_until, due)
        else:
            carried_out.append(_carry_out(view, command, situation.model, rules))
    return carried_out, decision.cursor


def _carry_out(view: ModelView, command: Command, model: ClusterModel | None, rules: Rules) -> ModelCommand:
    """Launch the replacements, move the pods, and let the candidates leave once they are drained."""
    cluster, now = view.cluster, view.now
    new_nodes: list[ModelNode] = []
    arrivals: Mapping[str, Mapping[str, int]] = {}
    if model is not None:
        problem = replace(model.problem, pools=[*model.problem.pools, *model.static_pools.values()])
        new_nodes = add_claims(view, command.replacements, problem, rules.boot, view.versions())
        arrivals = arrivals_of(command, model, [node.name for node in new_nodes], clock_instant(now))
    candidates = [cluster.nodes[candidate.node.claim] for candidate in command.candidates]
    pods = sum(len(node.pods) for node in candidates)
    before = sum(node.price(rules.prices) for node in candidates)
    boot = rules.boot if new_nodes else 0.0
    leave_at = now + boot + rules.drain * bool(pods)
    for node in candidates:
        cluster.leave(node.name, leave_at, now, str(command.reason))
    places: list[tuple[str, Iterable[Pod]]] = [
        *((node.name, claim.pods) for node, claim in zip(new_nodes, command.replacements, strict=True)),
        *command.destinations.items(),
    ]
    for name, arriving in places:
        if (host := cluster.nodes.get(name)) is not None:
            _move(cluster, host, arriving, arrivals.get(name, {}), now, is_new=host in new_nodes)
            host.awaits_pods_until = leave_at
    bind(cluster, now)
    for node in new_nodes:
        node.created_for, node.quiet = str(command.reason), node.ready
    return ModelCommand(
        at=now,
        reason=str(command.reason),
        removed=[node.offering[0] for node in candidates],
        bought=[node.offering[0] for node in new_nodes],
        pods=pods,
        saving=before - sum(claim.price for claim in command.new_claims),
        explanation=command.explanation,
    )


def _move(
    cluster: ModelCluster, node: ModelNode, pods: Iterable[Pod], times: Mapping[str, int], now: float, *, is_new: bool
) -> None:
    """Put pods on a node. They are new pods there, whose creation is when they were moved.

    A pod for which the node has no room any more waits for another one. So do those that kube-scheduler puts on the
    emptiest node, which need not be the planned one; a new node is the emptiest.
    """
    moved = [pod for pod in pods if (present := cluster.pods.get(pod.uid)) is not None and present.node == WAITS]
    for pod in moved:
        model_pod = cluster.pods[pod.uid]
        model_pod.live = model_pod.live.created_at(now)
        if (is_new or not is_plain(pod)) and node.has_room(pod, now):
            cluster.place(pod.uid, node.name, now)
    if moved and times:
        at = clock_instant(now)
        recent = (arrival for arrival in node.arrivals if at - arrival.at < REMEMBERED)
        node.arrivals = (*recent, Arrival(at, dict(times), counted(moved)))


def expire(view: ModelView, policies: Mapping[str, PoolPolicy], boot: float, drain: float) -> None:
    """Let expired nodes leave. Their NodePools' budgets hold none back, except where disruption chooses them."""
    for name, node in list(view.cluster.nodes.items()):
        policy = policies.get(node.pool)
        by_budget = policy is not None and policy.expire_within_budgets
        if node.stays and node.expires is not None and node.expires <= view.now and not by_budget:
            view.cluster.leave(name, view.now + boot + drain, view.now, EXPIRED)


def interrupt(cluster: ModelCluster, offerings: Iterable[tuple[str, str, str]], now: float) -> int:
    """Interrupt a node of the model for each offering of which EC2 took an instance back, if the model has one.

    Returns how many were interrupted. An offering that the model does not use is no risk for it.
    """
    interrupted = 0
    for offering, count in Counter(offerings).items():
        if offering[2] != labels.SPOT:
            continue
        matching = (node for node in cluster.nodes.values() if node.stays and node.offering == offering)
        oldest = sorted(matching, key=lambda node: (node.created, node.name))[:count]
        for node in oldest:
            cluster.leave(node.name, now + DRAIN_SECONDS, now, INTERRUPTED)
        interrupted += len(oldest)
    return interrupted
