"""A model cluster with a virtual clock, which provisions and disrupts with the decisions of `tenon`.

It stands in for the API server, kube-scheduler, EC2 and the workflows: instances are ready a while after their launch,
and disruption commands run step by step as `workflows` carries them out.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Literal

from benchmarks.catalogue import ec2_pool
from benchmarks.churn_load import Change, Job, Rollout, Scale, Workload
from benchmarks.wasteful import FAMILIES
from tenon.apis import labels
from tenon.apis.nodepool import NODES, Budget, ConsolidationPolicy
from tenon.disruption.arrivals import MAX_KEPT, Arrival
from tenon.disruption.commands import arrivals_of, command_id, pod_mark, pods_sent, to_message
from tenon.disruption.cost import rescheduling_cost
from tenon.disruption.deciding import decide
from tenon.disruption.methods import METHODS, moving_methods
from tenon.disruption.model import ClusterModel, Command, ManagedNode, NodeDetail, PoolPolicy, Situation
from tenon.disruption.strays import with_strays
from tenon.disruption.validation import why_invalid
from tenon.kube.decode import decode_pod
from tenon.kube.pod import Pod
from tenon.lifecycle.messages.disruption import Replacement
from tenon.resources import CPU, MEMORY, total
from tenon.scheduling.bound import lower_bound
from tenon.scheduling.deadline import never
from tenon.scheduling.engine import solve
from tenon.scheduling.model import InstanceType, Node, PlannedClaim, Pool, Problem
from tenon.scheduling.type_table import TypeTables

START = datetime(2026, 11, 21, tzinfo=UTC)
POOL = "default"
BATCH = 1.0
"""Seconds without a new pending pod after which they are planned (BATCH_IDLE_DURATION)."""
READY = 45.0
"""Seconds from an instance's launch until its Node is initialized."""
LEAVE = 30.0
"""Seconds from the eviction of a node's pods until its instance is gone."""
VALIDATION = 15.0
ROLLOUT_STEP = 30.0
SURGE = 0.25
SAMPLE = 600.0
SOON = 600.0
"""Two events within this many seconds belong together: a node that leaves so soon after its launch was not needed."""

Placement = Literal["planned", "spread"]


@dataclass
class PodState:
    """A pod. Its replacement after an eviction has another name, but the same ``place``, of which evictions count."""

    pod: Pod
    workload: Workload
    place: int
    revision: int
    created: float
    seconds: float = 0.0
    """How long it runs; 0 for ever."""
    node: str = ""
    planned: str = ""
    """The node that a plan chose for it."""


@dataclass
class Instance:
    """A NodeClaim with its instance and Node, which all have one name."""

    name: str
    kind: InstanceType
    zone: str
    capacity_type: str
    price: float
    launched: float
    ready: bool = False
    leaving: bool = False
    quiet_since: float = 0.0
    under_command: bool = False
    disrupted_by: str = ""
    """The command that has tainted it."""
    replacement_for: str = ""
    arrivals: tuple[Arrival, ...] = ()
    pods: dict[str, PodState] = field(default_factory=dict)


@dataclass
class Record:
    """What happened."""

    created: int = 0
    evicted: Counter[str] = field(default_factory=Counter)
    """By reason."""
    evictions: Counter[int] = field(default_factory=Counter)
    """By place of a pod."""
    soon_again: int = 0
    """Pods evicted again within `SOON`."""
    commands: Counter[str] = field(default_factory=Counter)
    """By nodes that left and came."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Commands that the validation ended, by why."""
    same_type: list[str] = field(default_factory=list)
    """Commands that replaced a node by one of its own type and capacity type."""
    launched: Counter[str] = field(default_factory=Counter)
    """Nodes, by what they were launched for."""
    short_lived: int = 0
    """Nodes that consolidation removed within `SOON` of their launch."""
    bought_back: int = 0
    """Nodes launched for pending pods within `SOON` of a consolidation that removed a node."""
    waits: list[float] = field(default_factory=list)
    """Seconds from each pod's creation until it was bound."""
    unschedulable: int = 0
    dollars: float = 0.0
    node_hours: float = 0.0
    samples: list[dict[str, float]] = field(default_factory=list)
    looks: int = 0
    log: list[str] = field(default_factory=list)
    """One line for each command, with its time."""


def six_families() -> Pool:
    """Return an on-demand NodePool of six common instance families.

    With all of EC2's types, a look takes about four times as long and a day of looks far too long.
    """
    pool = ec2_pool()
    types = [kind for kind in pool.instance_types if kind.name.partition(".")[0] in FAMILIES]
    return replace(pool, instance_types=types)


class ModelCluster:
    """The cluster. `run` plays the changes until the end."""

    def __init__(
        self,
        pool: Pool,
        policy: ConsolidationPolicy,
        *,
        consolidate_after: float = 60.0,
        budget: str = "10%",
        look_every: float = 10.0,
        placement: Placement = "planned",
    ) -> None:
        """Set what the NodePool says.

        Args:
            pool: the NodePool and its instance types.
            policy: its consolidationPolicy.
            consolidate_after: its consolidateAfter in seconds.
            budget: the nodes of its budget.
            look_every: seconds between two looks for nodes to disrupt.
            placement: where evicted pods go: the planned node if it has room, or the emptiest as kube-scheduler does.
        """
        self.record = Record()
        self._pool = pool
        self._types = {kind.name: kind for kind in pool.instance_types}
        self._policy = PoolPolicy(POOL, timedelta(seconds=consolidate_after), (Budget(nodes=budget),), policy)
        self._look_every = look_every
        self._placement = placement
        self._tables = TypeTables()
        self._now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._instances: dict[str, Instance] = {}
        self._pods: dict[str, PodState] = {}
        self._pending: dict[str, PodState] = {}
        self._wanted: dict[str, Scale] = {}
        self._revision: Counter[str] = Counter()
        self._specs: dict[tuple[str, int], Pod] = {}
        self._expected: dict[str, dict[str, Pod]] = {}
        """By node, pods of an open command that will move there and still run elsewhere."""
        self._last_eviction: dict[int, float] = {}
        self._last_consolidation = float("-inf")
        self._plan_at = float("inf")
        self._scheduling = False
        self._changed = True
        self._look_again = float("inf")
        self._price = 0.0

    def run(self, changes: Iterable[tuple[float, Change]], seconds: float) -> Record:
        """Play the changes and return what happened in these seconds."""
        for time, change in changes:
            self._at(time, lambda change=change: self._apply(change))  # type: ignore[misc]
        self._at(self._look_every, self._look)
        self._at(SAMPLE, self._sample)
        while self._queue and self._queue[0][0] <= seconds:
            time, _, action = heapq.heappop(self._queue)
            self._pass_time(time)
            action()
        self._pass_time(seconds)
        return self.record

    # --- time

    def _at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (time, next(self._order), action))

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._at(self._now + seconds, action)

    def _pass_time(self, time: float) -> None:
        hours = (time - self._now) / 3_600
        self.record.dollars += hours * self._price
        self.record.node_hours += hours * len(self._instances)
        self._now = time

    def _time(self, seconds: float) -> datetime:
        return START + timedelta(seconds=seconds)

    def _sample(self) -> None:
        """Note the cost, and the least that nodes for the pods of this moment can cost."""
        pods = [state.pod for state in self._pods.values()]
        self.record.samples.append(
            {
                "hour": round(self._now / 3_600, 2),
                "pods": len(pods),
                "nodes": len(self._instances),
                "price": round(self._price, 4),
                "lowerBound": round(lower_bound(Problem(pods, [self._pool])), 4),
            }
        )
        self._after(SAMPLE, self._sample)

    # --- workloads

    def _apply(self, change: Change) -> None:
        if isinstance(change, Job):
            self._create(change.workload, self._new_place(), change.seconds)
        elif isinstance(change, Rollout):
            self._revision[change.workload.name] += 1
            self._roll(change.workload)
        else:
            self._wanted[change.workload.name] = change
            self._scale(change.workload)

    def _scale(self, workload: Workload) -> None:
        wanted = self._wanted[workload.name].replicas
        mine = self._pods_of(workload)
        for _ in range(wanted - len(mine)):
            self._create(workload, self._new_place())
        for state in self._least_needed(mine)[: max(0, len(mine) - wanted)]:
            self._delete(state)

    def _roll(self, workload: Workload) -> None:
        """Replace a part of the pods, and go on until none is of an older revision."""
        old = [state for state in self._pods_of(workload) if state.revision < self._revision[workload.name]]
        if not old:
            self._scale(workload)
            return
        part = self._least_needed(old)[: max(1, round(SURGE * self._wanted[workload.name].replicas))]
        for _ in part:
            self._create(workload, self._new_place())
        keys = [state.pod.key for state in part]

        def go_on() -> None:
            for key in keys:
                if key in self._pods:
                    self._delete(self._pods[key])
            self._roll(workload)

        self._after(ROLLOUT_STEP + READY, go_on)

    def _pods_of(self, workload: Workload) -> list[PodState]:
        return [state for state in self._pods.values() if state.workload is workload]

    def _least_needed(self, states: Sequence[PodState]) -> list[PodState]:
        """Sort pods as the ReplicaSet controller deletes them: pending, then those that share a node, then young."""
        together = Counter(state.node for state in states)
        return sorted(states, key=lambda state: (bool(state.node), -together[state.node], -state.created))

    def _new_place(self) -> int:
        self.record.created += 1
        return self.record.created

    def _create(self, workload: Workload, place: int, seconds: float = 0.0) -> None:
        revision = self._revision[workload.name]
        if (workload.name, revision) not in self._specs:
            self._specs[workload.name, revision] = _pod(workload, revision)
        name = f"{workload.name}-{next(self._order)}"
        pod = self._pod_of(workload.name, revision, name)
        state = PodState(pod, workload, place, revision, self._now, seconds)
        self._pods[pod.key] = state
        self._pending[pod.key] = state
        self._schedule()

    def _pod_of(self, workload: str, revision: int, name: str) -> Pod:
        created = self._time(self._now).timestamp()
        return replace(
            self._specs[workload, revision], name=name, uid=name, created=created, workload=f"Deployment/{workload}"
        )

    def _delete(self, state: PodState) -> None:
        self._changed = True
        self._pods.pop(state.pod.key, None)
        self._pending.pop(state.pod.key, None)
        for pods in self._expected.values():
            pods.pop(state.pod.key, None)
        instance = self._instances.get(state.node)
        if instance is not None:
            instance.pods.pop(state.pod.key, None)
            instance.quiet_since = self._now

    # --- kube-scheduler and provisioning

    def _schedule(self) -> None:
        """Bind pending pods once all that happens at this moment has happened."""
        if not self._scheduling:
            self._scheduling = True
            self._after(0.0, self._bind_pending)

    def _bind_pending(self) -> None:
        """Bind the pending pods that fit. The others are planned once no new one came for a while."""
        self._scheduling = False
        refused: set[str] = set()
        for state in list(self._pending.values()):
            if state.workload.name in refused and not state.planned:
                continue
            node = self._place_for(state)
            if node is not None:
                self._bind(state, self._instances[node])
            elif not state.planned:
                refused.add(state.workload.name)
        if any(not state.planned for state in self._pending.values()):
            self._plan_at = self._now + BATCH
            self._at(self._plan_at, self._plan)

    def _place_for(self, state: PodState) -> str | None:
        planned = self._instances.get(state.planned)
        if planned is not None and not planned.ready:
            return None
        if planned is not None and not planned.leaving and not planned.disrupted_by and _fits(state.pod, planned):
            return planned.name
        state.planned = ""
        if state.pod.rules:
            plan = solve(
                Problem([state.pod], [_sold_out(self._pool)], self._nodes(only_ready=True)), tables=self._tables
            )
            return next(iter(plan.placements), None)
        open_ones = [
            one
            for one in self._instances.values()
            if one.ready and not one.leaving and not one.disrupted_by and _fits(state.pod, one)
        ]
        return min(open_ones, key=_load).name if open_ones else None

    def _bind(self, state: PodState, instance: Instance) -> None:
        self._changed = True
        del self._pending[state.pod.key]
        state.node, state.planned = instance.name, ""
        instance.pods[state.pod.key] = state
        instance.quiet_since = self._now
        self.record.waits.append(self._now - state.created)
        if state.seconds:
            key = state.pod.key
            self._after(state.seconds, lambda: self._delete(self._pods[key]) if key in self._pods else None)

    def _plan(self) -> None:
        waiting = [state for state in self._pending.values() if not state.planned]
        if self._now < self._plan_at or not waiting:
            return
        plan = solve(self._problem([state.pod for state in waiting]), tables=self._tables)
        for name, pods in plan.placements.items():
            for pod in pods:
                self._pending[pod.key].planned = name
        for claim in plan.claims:
            name = self._launch(claim, "pending pods")
            if self._now - self._last_consolidation <= SOON:
                self.record.bought_back += 1
            for pod in claim.pods:
                self._pending[pod.key].planned = name
        self.record.unschedulable += len(plan.unschedulable)
        if plan.placements:
            self._schedule()

    def _launch(self, claim: PlannedClaim, why: str, replacement_for: str = "") -> str:
        """Launch the claim's cheapest type, and return the node's name."""
        capacity_type, kind, zone = claim.offering
        name = f"node-{next(self._order):08}"
        instance = Instance(name, self._types[kind], zone, capacity_type, claim.price, self._now)
        instance.replacement_for = replacement_for
        self._instances[name] = instance
        self._price += instance.price
        self.record.launched[why] += 1
        self._changed = True

        def ready() -> None:
            instance.ready = True
            instance.quiet_since = self._now
            self._changed = True
            self._schedule()

        self._after(READY, ready)
        return name

    def _nodes(self, *, only_ready: bool = False) -> list[Node]:
        found = []
        for one in self._instances.values():
            if only_ready and not one.ready:
                continue
            pods = [state.pod for state in one.pods.values()]
            if not only_ready:
                pods += [state.pod for state in self._pending.values() if state.planned == one.name]
                pods += self._expected.get(one.name, {}).values()
            found.append(
                Node(
                    one.name,
                    _labels(one),
                    (),
                    one.kind.allocatable,
                    total(pod.requests for pod in pods),
                    initialized=one.ready,
                    pods=tuple(pods),
                    closed=one.leaving or bool(one.disrupted_by),
                )
            )
        return found

    def _problem(self, pods: Sequence[Pod]) -> Problem:
        used = total([*(one.kind.capacity for one in self._instances.values()), {NODES: len(self._instances)}])
        return Problem(pods, [replace(self._pool, usage=used)], self._nodes(), namespaces={"default": {}})

    # --- disruption

    def _situation(self) -> Situation:
        waiting = {state.planned for state in self._pending.values() if state.planned}
        managed, details = [], {}
        for one in self._instances.values():
            pods = tuple(state.pod for state in one.pods.values())
            quiet = self._time(one.quiet_since) if one.ready else None
            empty = not pods and one.name not in waiting
            managed.append(
                ManagedNode(
                    claim=one.name,
                    uid=one.name,
                    pool=POOL,
                    initialized=one.ready,
                    ready=one.ready,
                    leaving=one.leaving,
                    empty=empty,
                    protected=False,
                    quiet_since=quiet if empty else None,
                    node=one.name,
                    disrupted_by=one.disrupted_by,
                    replacement_for=one.replacement_for,
                    arrivals=one.arrivals,
                )
            )
            details[one.name] = NodeDetail(
                node=one.name,
                instance_type=one.kind.name,
                zone=one.zone,
                capacity_type=one.capacity_type,
                price=one.price,
                pods=pods,
                cost=rescheduling_cost((pod.priority, 0) for pod in pods),
                quiet_since=quiet,
                created_at=self._time(one.launched),
            )
        return Situation(
            nodes=with_strays(managed, details, self._time(self._now)),
            policies={POOL: self._policy},
            now=self._time(self._now),
            under_command=frozenset(one.name for one in self._instances.values() if one.under_command),
            nominated=frozenset(waiting | {name for name, pods in self._expected.items() if pods}),
            model=ClusterModel(self._problem(()), details),
        )

    def _look(self) -> None:
        """Decide, if anything that matters changed since the last look."""
        self._after(self._look_every, self._look)
        undecided = any(not state.planned for state in self._pending.values())
        if undecided or not (self._changed or self._now >= self._look_again):
            return
        self.record.looks += 1
        situation = self._situation()
        decision = decide(situation, (*METHODS, *moving_methods(never)))
        for error in decision.failed.values():
            raise error
        self._changed = bool(decision.commands)
        at = decision.look_again
        self._look_again = float("inf") if at is None else (at - START).total_seconds()
        for command in decision.commands:
            self._start(command)

    def _start(self, command: Command) -> None:
        ident = command_id(command, self._time(self._now))
        leaving = [self._instances[one.node.claim] for one in command.candidates]
        for one in leaving:
            one.under_command = True
        if not command.moves_pods:
            self._leave(leaving, command)
            return
        # nodes are tainted once the command is validated; a pod that comes before ends it
        pods = {one.name: [state.pod for state in one.pods.values()] for one in leaving}
        for name, arriving in command.destinations.items():
            self._expected.setdefault(name, {}).update((pod.key, pod) for pod in arriving)
        self._after(VALIDATION, lambda: self._validate(command, ident, leaving, pods))

    def _validate(self, command: Command, ident: str, leaving: list[Instance], pods: dict[str, list[Pod]]) -> None:
        message = to_message(
            command,
            ident=ident,
            replacements=[_replacement(str(n), claim) for n, claim in enumerate(command.replacements)],
            pods=pods,
        )
        for one in leaving:
            one.under_command = False
        self._drop_expected(command)
        same = all(
            sorted(candidate.pods) == sorted(pod_mark(state.pod.uid) for state in one.pods.values())
            for candidate, one in zip(message.candidates, leaving, strict=True)
        )
        situation = self._situation()
        why = why_invalid(message, situation) if same else "a pod came or went"
        if why:
            self.record.rejected[why.rpartition(": ")[2] if "fit nowhere" not in why else "a pod fits nowhere"] += 1
            self._changed = True
            return
        for one in leaving:
            one.under_command, one.disrupted_by = True, ident
        for name, arriving in command.destinations.items():
            self._expected.setdefault(name, {}).update((pod.key, pod) for pod in arriving)
        places = {pod.key: name for name, arriving in command.destinations.items() for pod in arriving}
        new = []
        for claim in command.replacements:
            new.append(self._launch(claim, "replacement", ident))
            self._expected[new[-1]] = {pod.key: pod for pod in claim.pods}
            places |= {pod.key: new[-1] for pod in claim.pods}
        model = situation.model
        assert model is not None
        self._after(READY + 1 if new else 0.0, lambda: self._carry_out(command, leaving, new, places, model))

    def _drop_expected(self, command: Command) -> None:
        for name, arriving in command.destinations.items():
            for pod in arriving:
                self._expected.get(name, {}).pop(pod.key, None)

    def _carry_out(
        self, command: Command, leaving: list[Instance], new: Sequence[str], places: dict[str, str], model: ClusterModel
    ) -> None:
        old_types = Counter((one.kind.name, one.capacity_type) for one in leaving)
        new_types = Counter((self._instances[name].kind.name, self._instances[name].capacity_type) for name in new)
        text = (
            f"{self._clock()} {command.reason}: {_listed(old_types)} -> {_listed(new_types) or 'nothing'}, "
            f"{sum(len(one.pods) for one in leaving)} pods, saves {command.saving:.4f}"
        )
        self.record.log.append(text)
        if old_types & new_types:
            self.record.same_type.append(text)
        self.record.commands[f"{len(leaving)} to {len(new)}"] += 1
        self.record.short_lived += sum(self._now - one.launched <= SOON for one in leaving)
        self._last_consolidation = self._now
        self._drop_expected(command)
        sent = pods_sent(command, model, new)
        for name, times in arrivals_of(command, model, new, self._time(self._now)).items():
            if one := self._instances.get(name):
                one.arrivals = (*one.arrivals, Arrival(self._time(self._now), times, sent[name]))[-MAX_KEPT:]
        for name in new:
            self._expected.pop(name, None)
            self._instances[name].replacement_for = ""
        self._leave(leaving, command, places)

    def _leave(self, leaving: Sequence[Instance], command: Command, places: dict[str, str] | None = None) -> None:
        """Evict the pods and terminate the nodes."""
        self._changed = True
        evicted = []
        for one in leaving:
            one.leaving = True
            evicted += [(state, (places or {}).get(state.pod.key, "")) for state in one.pods.values()]
            self._after(LEAVE, lambda one=one: self._terminate(one))  # type: ignore[misc]
        if not command.moves_pods:
            self.record.commands["empty"] += len(leaving)
        for state, _ in evicted:
            self._delete(state)
        for state, place in evicted:
            self._evict(state, place if self._placement == "planned" else "", command)
        self._schedule()

    def _evict(self, state: PodState, place: str, command: Command) -> None:
        self.record.evicted[command.reason] += 1
        self.record.evictions[state.place] += 1
        if self._now - self._last_eviction.get(state.place, float("-inf")) <= SOON:
            self.record.soon_again += 1
            self.record.log.append(f"{self._clock()} moved again within 10 min: {state.pod.name}")
        self._last_eviction[state.place] = self._now
        name = f"{state.workload.name}-{next(self._order)}"
        pod = self._pod_of(state.workload.name, state.revision, name)
        fresh = replace(state, pod=pod, created=self._now, node="", planned=place)
        self._pods[pod.key] = fresh
        self._pending[pod.key] = fresh

    def _terminate(self, one: Instance) -> None:
        del self._instances[one.name]
        self._price -= one.price
        self._changed = True

    def _clock(self) -> str:
        seconds = int(self._now)
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _replacement(name: str, claim: PlannedClaim) -> Replacement:
    """Return the replacement with the part of its NodeClaim that a validation reads."""
    types = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(claim.instance_types)}
    return Replacement(name=name, pool=POOL, body={"spec": {"requirements": [types]}})


def _listed(kinds: Counter[tuple[str, str]]) -> str:
    return ", ".join(f"{number} {kind}" for (kind, _), number in sorted(kinds.items()))


def _sold_out(pool: Pool) -> Pool:
    return replace(pool, limits={NODES: 0}, usage={})


def _free(instance: Instance) -> dict[str, int]:
    used = total(state.pod.requests for state in instance.pods.values())
    return {name: units - used.get(name, 0) for name, units in instance.kind.allocatable.items()}


def _fits(pod: Pod, instance: Instance) -> bool:
    free = _free(instance)
    return all(units <= free.get(name, 0) for name, units in pod.requests.items())


def _load(instance: Instance) -> tuple[float, str]:
    """How full a node is, as kube-scheduler's LeastAllocated scores it."""
    free, room = _free(instance), instance.kind.allocatable
    return -sum(free[name] / room[name] for name in (CPU, MEMORY)) / 2, instance.name


def _labels(instance: Instance) -> dict[str, str]:
    known = {key: one.values[0] for key, one in instance.kind.requirements.items() if len(one.members) == 1}
    own = {
        labels.INSTANCE_TYPE: instance.kind.name,
        labels.ZONE: instance.zone,
        labels.CAPACITY_TYPE: instance.capacity_type,
        labels.NODEPOOL: POOL,
        labels.HOSTNAME: instance.name,
    }
    return {**known, **own}


def _pod(workload: Workload, revision: int) -> Pod:
    own = {"app": workload.name, "pod-template-hash": str(revision)}
    container = {"name": "main", "image": "pause", "resources": {"requests": dict(workload.requests)}}
    spec: dict[str, Any] = {"containers": [container]}
    if workload.spread:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": workload.spread,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": own},
            }
        ]
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": workload.name, "uid": workload.name, "labels": own},
        "spec": spec,
    }
    return decode_pod(json.dumps(manifest).encode()).pod
