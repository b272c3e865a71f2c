"""Nodes of a NodePool under a rollout, which are replaced as it asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tenon.apis.noderollout import NodeRolloutSpec
from tenon.messages.rollout import PoolProgress, RolloutOperator, RolloutRequest
from tenon.rollout.gates import GateResult, GateVerdict
from tenon.rollout.nodes import PoolNode
from tenon.rollout.progress import Observation, advance
from tenon.rollout.requests import requested

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Action = Literal["start", "approve", "pause", "resume", "abort", "rollback"]
GOOD = [GateResult("pods ready", GateVerdict.PASS, "all pods are Ready")]
BAD = [GateResult("pods ready", GateVerdict.FAIL, "web-1 not Ready")]


def spec(**fields: Any) -> NodeRolloutSpec:
    strategy = {"waves": ["1", "10%", "100%"], "soak": "10m", **fields.pop("strategy", {})}
    return NodeRolloutSpec.model_validate({"strategy": strategy, **fields})


def ask(action: Action, **fields: Any) -> RolloutRequest:
    return RolloutRequest(action=action, operator=RolloutOperator(pool="web", by="alice", **fields))


@dataclass
class Fleet:
    """A NodePool whose waves are carried out, as the drift method does."""

    spec: NodeRolloutSpec
    count: int = 60
    bad: frozenset[str] = frozenset()
    """Versions whose nodes fail the gates."""
    newest: str = "old"
    held_back: str = ""
    progress: PoolProgress = field(default_factory=lambda: PoolProgress(pool="web"))
    now: datetime = BEGIN
    nodes: dict[str, PoolNode] = field(default_factory=dict)
    most_leaving: int = 0
    touched: set[str] = field(default_factory=set)
    launched: int = 0

    def __post_init__(self) -> None:
        for _ in range(self.count):
            self.launch("old")

    def launch(self, revision: str, *, warm: bool = False) -> None:
        self.launched += 1
        name = f"web-{self.launched:04}"
        self.nodes[name] = PoolNode(name, f"zone-{self.launched % 3}", self.now, revision, warm=warm)

    def look(self) -> PoolProgress:
        nodes = list(self.nodes.values())
        gates = BAD if any(node.revision in self.bad for node in nodes) else GOOD
        observed = Observation(self.newest, nodes, gates, self.held_back)
        self.progress = advance(self.progress, self.spec, observed, self.now)
        return self.progress

    def step(self) -> None:
        """Look, replace the nodes of the wave, and let a minute pass."""
        progress = self.look()
        self.most_leaving = max(self.most_leaving, len(progress.claims))
        for claim in progress.claims:
            if (node := self.nodes.get(claim)) is not None and node.blocked:
                continue
            self.touched.add(claim)
            if (node := self.nodes.pop(claim, None)) is None:
                continue
            if node.warm:  # it has no pods, so nothing replaces it, and the controller of warm nodes buys another one
                self.launch(progress.current, warm=True)
            else:
                self.launch(progress.target if progress.phase == "Progressing" else progress.current)
        self.now += timedelta(minutes=1)

    def until(self, reached: Callable[[PoolProgress], bool], steps: int = 3000) -> Iterator[None]:
        for _ in range(steps):
            if reached(self.progress):
                return
            self.step()
            yield
        raise AssertionError(f"it does not get there: {self.progress}")

    def run(self, phase: str) -> None:
        for _ in self.until(lambda progress: progress.phase == phase and progress.current != ""):
            pass

    def versions(self) -> dict[str, int]:
        revisions = [node.revision for node in self.nodes.values()]
        return {revision: revisions.count(revision) for revision in sorted(set(revisions))}

    def ask(self, action: Action, **fields: Any) -> None:
        self.progress = requested(self.progress, ask(action, **fields), self.now)


def changed(fleet: Fleet, newest: str = "new") -> Fleet:
    fleet.look()
    fleet.newest = newest
    fleet.look()
    return fleet


def protect(fleet: Fleet, *claims: str) -> None:
    """Pods keep these nodes for ever."""
    for claim in claims:
        fleet.nodes[claim] = replace(fleet.nodes[claim], blocked="pod web/job must not be disrupted")
