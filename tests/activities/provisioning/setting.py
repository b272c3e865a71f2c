"""A planner with everything around it in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from activities.kubernetes.client import Kube
from activities.provisioning.account_commitments import CommitmentStore
from activities.provisioning.batching import Batcher
from activities.provisioning.live_solving import LiveSolver
from activities.provisioning.planner import BatchPlanner
from activities.provisioning.solving import Solver
from activities.provisioning.spot_scores import SpotScoreStore
from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.messages.provisioning import PlanInput
from tenon.provisioning.planning_policy import PlanPolicy
from tests.activities.node.fake_kube import Recorder
from tests.activities.provisioning.batch_window import KARPENTERS_WINDOW
from tests.activities.provisioning.fake_view import START, FakeClaims, FakeTypes, FakeView

BATCH = PlanInput(cluster="c", batch=41)


class Setting:
    """A planner, and everything around it in memory; ``follows``: the cache shows a claim as soon as it is written."""

    def __init__(self, *pods: Pod, follows: bool = True, policy: PlanPolicy | None = None) -> None:
        self.policy = policy
        self.view = FakeView()
        self.view.pods = list(pods)
        self.kube = FakeClaims(self.view if follows else None)
        self.types = FakeTypes()
        self.recorder = Recorder()
        self.now = START
        self.commitments = CommitmentStore()
        self.spot_scores = SpotScoreStore()
        self.restart()

    def restart(self, solver: Solver | None = None) -> None:
        """A new process: all that was only remembered is gone."""
        self.batcher = Batcher(self.view, lambda: self.now, window=KARPENTERS_WINDOW)
        self.planner = BatchPlanner(
            self.view,
            self.types,
            cast("Kube", self.kube),
            self.recorder,
            self.batcher,
            lambda: self.now,
            LiveSolver(self.view, self.batcher, self.policy, solver, self.commitments, self.spot_scores),
        )

    async def events_written(self) -> None:
        """Return when all events of earlier plans have been written."""
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "pod events"))

    def pools_used(self) -> set[str]:
        return {body["metadata"]["labels"][labels.NODEPOOL] for body in self.kube.objects.values()}

    def types_of(self, name: str) -> Sequence[str]:
        terms: list[dict[str, Any]] = self.kube.objects[name]["spec"]["requirements"]
        names: Sequence[str] = next(t["values"] for t in terms if t["key"] == labels.INSTANCE_TYPE)
        return names
