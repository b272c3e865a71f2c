"""Whether a wave is good: what the nodes of a new version do, compared with those of the version before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tenon.apis.duration import Duration
from tenon.apis.noderollout import PrometheusGate, RolloutGates
from tenon.kube.timestamps import time_text
from tenon.messages.rollout import NodesBefore
from tenon.sentences import counted, first_few

_NAMED = 3
CHANCE = 2
"""How many more containers than predicted may restart on new nodes."""


class GateVerdict(StrEnum):
    """What a gate says."""

    PASS = "Pass"
    WAIT = "Wait"
    FAIL = "Fail"


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod on a node that is not Ready."""

    name: str
    placed: datetime
    """When it got the node, or when it stopped to be Ready if that is later."""
    owner: str = ""
    """The UID of its controller; empty without one."""


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """What is seen of one node."""

    claim: str
    created: datetime
    initialized: bool
    containers: int = 0
    """The containers of its pods, without those of DaemonSets."""
    restarts: int = 0
    """How many of them restarted since the wave began."""
    crash_loops: int = 0
    """How many wait in CrashLoopBackOff."""
    waiting_pods: Sequence[WaitingPod] = ()
    faults: frozenset[str] = frozenset()
    """The conditions of the Node that are faults, as type and status."""


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """What Prometheus answered to one query."""

    value: float | None = None
    """The number; None if there was none."""
    problem: str = ""
    """Why there is none, in a clause."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """What one gate says, and why."""

    gate: str
    verdict: GateVerdict
    evidence: str


def overall(results: Iterable[GateResult]) -> GateVerdict:
    """Return the verdict of a wave: it fails if one gate fails, and passes if all do."""
    verdicts = {result.verdict for result in results}
    for verdict in (GateVerdict.FAIL, GateVerdict.WAIT):
        if verdict in verdicts:
            return verdict
    return GateVerdict.PASS


@dataclass(frozen=True, slots=True)
class NodeStarts:
    """How nodes of the new version start."""

    since: datetime | None = None
    """When the start began, if no new node is initialized since then; None if no node is being started."""
    refusal: str = ""
    """Why the last launch failed, in EC2's words; empty if it did not."""


NO_STARTS = NodeStarts()


def judge(
    gates: RolloutGates,
    new: Sequence[NodeEvidence],
    old: Sequence[NodeEvidence],
    answers: Mapping[str, QueryAnswer],
    now: datetime,
    *,
    before: NodesBefore | None = None,
    replaced_at: datetime | None = None,
    starts: NodeStarts = NO_STARTS,
) -> list[GateResult]:
    """Return what every gate says.

    Args:
        gates: the gates of the rollout.
        new: the nodes of the new version.
        old: the other nodes of the NodePool.
        answers: by the name of the query, what Prometheus answered.
        now: the time.
        before: what the nodes were like before the first wave.
        replaced_at: when the last node of the wave was replaced. Pods that arrive later do not hold it up.
        starts: how nodes of the new version start.
    """
    before = before or NodesBefore()
    results = [_initialized(gates, new, now, starts), _pods_ready(gates, new, replaced_at, now)]
    if gates.restarts != "Ignore":
        results.append(_restarts(new, old, before))
    if gates.node_conditions != "Ignore":
        results.append(_conditions(new, old, before))
    results += [_query(gate, answers.get(gate.name, QueryAnswer(problem="not asked yet"))) for gate in gates.prometheus]
    return results


def _initialized(gates: RolloutGates, new: Sequence[NodeEvidence], now: datetime, starts: NodeStarts) -> GateResult:
    """A node that does not start is deleted after some minutes and another one is launched, so each is young."""
    waiting = [node for node in new if not node.initialized]
    why = f": {starts.refusal}" if starts.refusal else ""
    late = [node.claim for node in waiting if now - node.created > _length(gates.initialized_within)]
    if late:
        text = f"{first_few(sorted(late), _NAMED)} not initialized within {gates.initialized_within}{why}"
        return GateResult("initialized", GateVerdict.FAIL, text)
    if starts.since is not None and now - starts.since > _length(gates.initialized_within):
        text = f"no new node initialized since {time_text(starts.since)}, within {gates.initialized_within}{why}"
        return GateResult("initialized", GateVerdict.FAIL, text)
    text = f"{len(new) - len(waiting)} of {counted(len(new), 'new node')} initialized{why}"
    return GateResult("initialized", GateVerdict.WAIT if waiting or starts.refusal else GateVerdict.PASS, text)


def _pods_ready(
    gates: RolloutGates, new: Sequence[NodeEvidence], replaced_at: datetime | None, now: datetime
) -> GateResult:
    waiting = [pod for node in new for pod in node.waiting_pods]
    late = [pod.name for pod in waiting if now - pod.placed > _length(gates.pods_ready_within)]
    if late:
        text = f"{first_few(sorted(late), _NAMED)} not Ready within {gates.pods_ready_within}"
        return GateResult("pods ready", GateVerdict.FAIL, text)
    waiting = [pod for pod in waiting if replaced_at is None or pod.placed < replaced_at]
    text = (
        f"{counted(len(waiting), 'pod')} on new nodes not Ready yet" if waiting else "all pods on new nodes are Ready"
    )
    return GateResult("pods ready", GateVerdict.WAIT if waiting else GateVerdict.PASS, text)


def _restarts(new: Sequence[NodeEvidence], old: Sequence[NodeEvidence], before: NodesBefore) -> GateResult:
    """Compare rates for each container, because the two groups of nodes have different sizes.

    A few restarts more than the old rate predicts are chance, most of all when few old nodes are left. Crash loops are
    also compared with those before the first wave. Without an old node there is nothing to compare restarts with.
    """
    text = (
        f"new nodes: {_total(new, 'restarts')} restarts and {_total(new, 'crash_loops')} crash loops of "
        f"{counted(_total(new, 'containers'), 'container')}; old nodes: {_total(old, 'restarts')} and "
        f"{_total(old, 'crash_loops')} of {_total(old, 'containers')}"
    )
    containers, old_containers = _total(new, "containers"), _total(old, "containers")
    loop_rate = max(_total(old, "crash_loops") / (old_containers or 1), before.crash_loops / (before.containers or 1))
    predicted = _total(old, "restarts") / (old_containers or 1) * containers
    too_many = old_containers > 0 and _total(new, "restarts") > predicted + CHANCE
    failed = too_many or _total(new, "crash_loops") > loop_rate * containers
    return GateResult("restarts", GateVerdict.FAIL if failed else GateVerdict.PASS, text)


def _total(nodes: Sequence[NodeEvidence], field: str) -> int:
    return sum(int(getattr(node, field)) for node in nodes)


def _conditions(new: Sequence[NodeEvidence], old: Sequence[NodeEvidence], before: NodesBefore) -> GateResult:
    old_faults = frozenset(before.faults).union(*(node.faults for node in old))
    fresh = {fault: node.claim for node in reversed(new) for fault in node.faults - old_faults}
    if fresh:
        text = first_few([f"{fault} on {fresh[fault]}" for fault in sorted(fresh)], _NAMED)
        return GateResult("node conditions", GateVerdict.FAIL, f"{text}, and on no old node")
    return GateResult("node conditions", GateVerdict.PASS, "no fault that old nodes do not have")


def _query(gate: PrometheusGate, answer: QueryAnswer) -> GateResult:
    """A query without an answer waits: a Prometheus that is away says nothing about the new version."""
    name = f"query {gate.name}"
    if answer.value is None:
        return GateResult(name, GateVerdict.WAIT, answer.problem or "no value")
    above = gate.max is not None and answer.value > float(gate.max)
    below = gate.min is not None and answer.value < float(gate.min)
    bounds = " and ".join(
        f"{word} {bound}" for word, bound in (("at least", gate.min), ("at most", gate.max)) if bound is not None
    )
    # A value that is no number compares as neither above nor below, and is not within the bounds either.
    failed = above or below or answer.value != answer.value
    return GateResult(name, GateVerdict.FAIL if failed else GateVerdict.PASS, f"{answer.value:g}, must be {bounds}")


def _length(duration: Duration) -> timedelta:
    return timedelta(seconds=duration.seconds or 0)
