"""Carries a switch out, step by step, and remembers each one. It may be killed at any moment and run again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from temporalio.service import RPCError

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from cli.switching import memory as memories
from cli.switching.deployments import Workload
from cli.switching.memory import Memory
from cli.switching.observing import Watcher
from tenon.migration.node_states import NodeChanges, difference, instances
from tenon.migration.switch import Direction, StepKind, SwitchStep, decide, waiting
from worker.runtime.temporal.temporal_client import TemporalError

LOOK_SECONDS = 1.0
SERVER_ERROR = 500
"""From this status on, another attempt may succeed: the API server, or a webhook that it calls, is not there yet."""
Report = Callable[[str], None]


@dataclass(slots=True)
class Guide:
    """A switch of one cluster."""

    kube: Kube
    watcher: Watcher
    memory: Memory
    report: Report
    clear: Callable[[], Awaitable[None]]
    """Ends Tenon's workflows and removes its marks."""
    install: Callable[[], Awaitable[None]]
    """Installs Tenon's CRDs in place of those of v1beta1."""

    _failure: str = field(default="", init=False)
    """The failure that was reported last."""

    async def run(self) -> bool:
        """Go on until the switch has ended, or a person must look. Return whether it has ended.

        Raises:
            ApiError: the API server refuses. A guide goes on while it is away, and in any case while it clears.
            DeploymentError: a Deployment is gone.
        """
        await self._remember()
        reported = ""
        while not self.memory.switch.phase.ended:
            try:
                step = decide(self.memory.switch, await self.watcher.observe(self.memory))
                if step.sentence != reported:
                    self.report(step.sentence)
                    reported = step.sentence
                if step.kind is StepKind.STUCK:
                    return False
                await self._carry_out(step)
            except ApiError as error:
                if 0 < error.status < SERVER_ERROR:
                    raise
                self._report_failure(f"Waiting: {error}")
                await asyncio.sleep(LOOK_SECONDS)
        return True

    async def differences(self) -> NodeChanges | None:
        """What changed since the switch began; None if the cluster has too many nodes to record."""
        if self.memory.instances is None:
            return None
        return difference(self.memory.instances, instances(await self.watcher.claims()))

    async def _carry_out(self, step: SwitchStep) -> None:
        switch = self.memory.switch
        match step.kind:
            case StepKind.WAIT:
                await asyncio.sleep(LOOK_SECONDS)
            case StepKind.START_SUCCESSOR:
                await self._successor.scale(self.kube, switch.successor_replicas)
            case StepKind.STOP_SUCCESSOR:
                await self._successor.scale(self.kube, 0)
            case StepKind.STOP_LEAVER:
                await self._leaver.scale(self.kube, 0)
            case StepKind.START_LEAVER:
                await self._leaver.scale(self.kube, switch.leaver_replicas)
            case StepKind.CLEAR:
                step = await self._clear(step)
            case StepKind.INSTALL:
                await self.install()
        if step.then is not None:
            self.memory = replace(self.memory, switch=switch.entered(step.then, utc_now(), step.why_back))
            await self._remember()

    async def _clear(self, step: SwitchStep) -> SwitchStep:
        """Clear, and return the step that this was. Neither controller runs, so no failure may end the guide there."""
        try:
            await self.clear()
        except (ApiError, TemporalError, RPCError) as error:
            next_step = waiting(self.memory.switch, utc_now(), str(error).rstrip("."))
            self._report_failure(next_step.sentence)
            if next_step.kind is StepKind.WAIT:
                await asyncio.sleep(LOOK_SECONDS)
            return next_step
        return step

    def _report_failure(self, sentence: str) -> None:
        if sentence != self._failure:
            self.report(sentence)
            self._failure = sentence

    async def _remember(self) -> None:
        await memories.write(self.kube, self.watcher.tenon.namespace, self.memory)

    @property
    def _leaver(self) -> Workload:
        is_takeover = self.memory.switch.direction is Direction.TAKEOVER
        return self.watcher.karpenter if is_takeover else self.watcher.tenon

    @property
    def _successor(self) -> Workload:
        is_takeover = self.memory.switch.direction is Direction.TAKEOVER
        return self.watcher.tenon if is_takeover else self.watcher.karpenter
