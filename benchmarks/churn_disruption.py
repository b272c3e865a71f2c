"""Disruption in the model cluster: looks, and commands step by step as `workflows` carries them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from benchmarks.churn_clock import START
from benchmarks.churn_record import SOON
from benchmarks.churn_scheduler import READY, Scheduler
from benchmarks.churn_state import POOL, ClusterState, Instance, PodState
from tenon.apis import labels
from tenon.disruption.arrivals import read_arrivals, with_arrival
from tenon.disruption.commands import arrivals_of, command_id, pods_sent, to_message
from tenon.disruption.consolidatable import settles_at
from tenon.disruption.cost import rescheduling_cost
from tenon.disruption.deciding import decide
from tenon.disruption.methods import METHODS, moving_methods
from tenon.disruption.model import ClusterModel, Command, ManagedNode, NodeDetail, PoolPolicy, Situation
from tenon.disruption.pod_mark import pod_mark
from tenon.disruption.pods_elsewhere import PodsElsewhere
from tenon.disruption.validation import why_invalid
from tenon.kube.pod import Pod
from tenon.lifecycle.messages.disruption import Replacement
from tenon.scheduling.deadline import never
from tenon.scheduling.model import PlannedClaim

LEAVE = 30.0
"""Seconds from the eviction of a node's pods until its instance is gone."""
VALIDATION = 15.0

Placement = Literal["planned", "spread"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How commands begin. By default, all commands of a look begin at once."""

    most: int | None = None
    """How many commands of a look begin; None for all."""
    settle_step: float = 0.0
    """A look waits while more nodes become due within so many seconds of each other,"""
    max_settle: float = 0.0
    """but not for longer than so many seconds."""
    apart: float = 0.0
    """Seconds between the validations of two commands of a look, whose pods are evicted at once."""


class Disruption:
    """Removes nodes as Tenon decides."""

    def __init__(
        self,
        state: ClusterState,
        scheduler: Scheduler,
        policy: PoolPolicy,
        *,
        look_every: float,
        placement: Placement,
        pace: Pace,
    ) -> None:
        """``look_every``: seconds between two looks. ``placement``: see `ModelCluster`. ``pace``: of its commands."""
        self._state = state
        self._scheduler = scheduler
        self._policy = policy
        self._look_every = look_every
        self._placement = placement
        self._pace = pace
        self._ready_since: float | None = None
        """Since when a look waits for more nodes to become due; None if none waits."""
        self._look_again = float("inf")
        self._last_eviction: dict[int, float] = {}
        self._elsewhere = PodsElsewhere()

    def _situation(self) -> Situation:
        waiting = {state.planned for state in self._state.pending.values() if state.planned}
        managed, details = [], {}
        for one in self._state.instances.values():
            pods = tuple(state.pod for state in one.pods.values())
            quiet = self._state.clock.instant(one.quiet_since) if one.ready else None
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
                    quiet_since=quiet if empty else None,
                    node=one.name,
                    disrupted_by=one.disrupted_by,
                    replacement_for=one.replacement_for,
                    arrivals=read_arrivals(one.moved_here),
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
                created_at=self._state.clock.instant(one.launched),
            )
        return Situation(
            nodes=self._elsewhere.added_to(managed, details, self._state.clock.instant()),
            policies={POOL: self._policy},
            now=self._state.clock.instant(),
            under_command=frozenset(one.name for one in self._state.instances.values() if one.under_command),
            nominated=frozenset(waiting | {name for name, pods in self._state.expected.items() if pods}),
            model=ClusterModel(self._state.problem(()), details),
        )

    def look(self) -> None:
        """Decide, if anything that matters changed since the last look."""
        if (wait := self._settles_in()) > 0:
            self._state.clock.after(wait, self.look)
            return
        self._ready_since = None
        self._state.clock.after(self._look_every, self.look)
        undecided = any(not state.planned for state in self._state.pending.values())
        if undecided or not (self._state.changed or self._state.clock.now >= self._look_again):
            return
        self._state.record.looks += 1
        situation = self._situation()
        decision = decide(situation, (*METHODS, *moving_methods(never)))
        for error in decision.failed.values():
            raise error
        self._state.changed = bool(decision.commands)
        at = decision.look_again
        self._look_again = float("inf") if at is None else (at - START).total_seconds()
        moves = [command for command in decision.commands if command.moves_pods]
        for command in decision.commands:
            if not command.moves_pods:
                self._start(command)
        for number, command in enumerate(moves[: self._pace.most]):
            self._start(command, VALIDATION + number * self._pace.apart)

    def _settles_in(self) -> float:
        """For how many seconds a look waits for more nodes to become due."""
        if not self._pace.settle_step:
            return 0.0
        clock = self._state.clock
        if self._ready_since is None:
            self._ready_since = clock.now
        situation = self._situation()
        assert situation.model is not None
        quiet = {claim: at for claim, one in situation.model.details.items() if (at := one.quiet_since) is not None}
        step = timedelta(seconds=self._pace.settle_step)
        settled = settles_at(situation.nodes, situation.policies, quiet, situation.now, step)
        return min((settled - situation.now).total_seconds(), self._ready_since + self._pace.max_settle - clock.now)

    def _start(self, command: Command, delay: float = 0.0) -> None:
        ident = command_id(command, self._state.clock.instant())
        leaving = [self._state.instances[one.node.claim] for one in command.candidates]
        for one in leaving:
            one.under_command = True
        if not command.moves_pods:
            self._leave(leaving, command)
            return
        # nodes are tainted once the command is validated; a pod that comes before ends it
        pods = {one.name: [state.pod for state in one.pods.values()] for one in leaving}
        for name, arriving in command.destinations.items():
            self._state.expected.setdefault(name, {}).update((pod.key, pod) for pod in arriving)
        self._state.clock.after(delay, lambda: self._validate(command, ident, leaving, pods))

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
            self._state.record.rejected[
                why.rpartition(": ")[2] if "fit nowhere" not in why else "a pod fits nowhere"
            ] += 1
            self._state.changed = True
            return
        for one in leaving:
            one.under_command, one.disrupted_by = True, ident
        for name, arriving in command.destinations.items():
            self._state.expected.setdefault(name, {}).update((pod.key, pod) for pod in arriving)
        places = {pod.key: name for name, arriving in command.destinations.items() for pod in arriving}
        new = []
        for claim in command.replacements:
            new.append(self._scheduler.launch(claim, "replacement", ident))
            self._state.expected[new[-1]] = {pod.key: pod for pod in claim.pods}
            places |= {pod.key: new[-1] for pod in claim.pods}
        model = situation.model
        assert model is not None
        self._state.clock.after(
            READY + 1 if new else 0.0, lambda: self._carry_out(command, leaving, new, places, model)
        )

    def _drop_expected(self, command: Command) -> None:
        for name, arriving in command.destinations.items():
            for pod in arriving:
                self._state.expected.get(name, {}).pop(pod.key, None)

    def _carry_out(
        self, command: Command, leaving: list[Instance], new: Sequence[str], places: dict[str, str], model: ClusterModel
    ) -> None:
        old_types = Counter((one.kind.name, one.capacity_type) for one in leaving)
        new_types = Counter(
            (self._state.instances[name].kind.name, self._state.instances[name].capacity_type) for name in new
        )
        text = (
            f"{self._state.clock.text()} {command.reason}: {_listed(old_types)} -> {_listed(new_types) or 'nothing'}, "
            f"{sum(len(one.pods) for one in leaving)} pods, saves {command.saving:.4f}"
        )
        self._state.record.log.append(text)
        if old_types & new_types:
            self._state.record.same_type.append(text)
        self._state.record.commands[f"{len(leaving)} to {len(new)}"] += 1
        self._state.record.short_lived += sum(self._state.clock.now - one.launched <= SOON for one in leaving)
        self._state.last_consolidation = self._state.clock.now
        self._drop_expected(command)
        sent = pods_sent(command, model, new)
        for name, times in arrivals_of(command, model, new, self._state.clock.instant()).items():
            if one := self._state.instances.get(name):
                one.moved_here = with_arrival(one.moved_here, self._state.clock.instant(), times, sent[name])
        for name in new:
            self._state.expected.pop(name, None)
            self._state.instances[name].replacement_for = ""
        self._leave(leaving, command, places)

    def _leave(self, leaving: Sequence[Instance], command: Command, places: dict[str, str] | None = None) -> None:
        """Evict the pods and terminate the nodes."""
        self._state.changed = True
        evicted = []
        for one in leaving:
            one.leaving = True
            evicted += [(state, (places or {}).get(state.pod.key, "")) for state in one.pods.values()]
            self._state.clock.after(LEAVE, lambda one=one: self._terminate(one))  # type: ignore[misc]
        if not command.moves_pods:
            self._state.record.commands["empty"] += len(leaving)
        for state, _ in evicted:
            self._state.delete(state)
        for state, place in evicted:
            self._evict(state, place if self._placement == "planned" else "", command)
        self._scheduler.schedule()

    def _evict(self, state: PodState, place: str, command: Command) -> None:
        self._state.record.evicted[command.reason] += 1
        self._state.record.evictions[state.place] += 1
        if self._state.clock.now - self._last_eviction.get(state.place, float("-inf")) <= SOON:
            self._state.record.soon_again += 1
            self._state.record.log.append(f"{self._state.clock.text()} moved again within 10 min: {state.pod.name}")
        self._last_eviction[state.place] = self._state.clock.now
        pod = self._state.new_pod(state.pod, state.workload.name)
        self._state.add_pending(replace(state, pod=pod, created=self._state.clock.now, node="", planned=place))

    def _terminate(self, one: Instance) -> None:
        del self._state.instances[one.name]
        self._state.count_nodes()
        self._state.price -= one.price
        self._state.changed = True


def _replacement(name: str, claim: PlannedClaim) -> Replacement:
    """Return the replacement with the part of its NodeClaim that a validation reads."""
    types = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(claim.instance_types)}
    return Replacement(name=name, pool=POOL, body={"spec": {"requirements": [types]}})


def _listed(kinds: Counter[tuple[str, str]]) -> str:
    return ", ".join(f"{number} {kind}" for (kind, _), number in sorted(kinds.items()))
