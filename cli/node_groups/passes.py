"""Moves the pods of a group, pass by pass. It may be stopped at any moment and run again."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from cli.node_groups.group import REBALANCING, GroupError, ScalingGroup
from cli.node_groups.nodes import NodePods, cordon, evict, read_nodes, read_waiting
from cli.node_groups.preconditions import NOBODY_LEADS, SHOWN, leads
from cli.switching.leases import LeaseWatch
from tenon.migration.group_draining import Moves, displaced, moves
from tenon.sentences import counted, first_few

LOOK_SECONDS = 2.0


@dataclass(slots=True)
class GroupDrain:
    """The drain of one group."""

    kube: Kube
    group: ScalingGroup
    leases: LeaseWatch
    """It has seen that Tenon leads."""
    remain: int
    at_once: int
    timeout: float
    """Seconds."""
    earlier: Collection[str]
    """UIDs of the pods that waited for a node before the drain began."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _ended: set[str] = field(default_factory=set)
    """Instances that were ended, and that Auto Scaling may still list."""
    _owners: set[str] = field(default_factory=set)
    """UIDs of the controllers of pods that were on nodes that leave."""
    _leaving: dict[str, NodePods] = field(default_factory=dict)
    """The nodes that leave, by their names, in the last pass."""
    _state: str = ""
    """What the last pass read; another text if anything has moved."""
    _reported: str = ""

    async def run(self) -> bool:
        """Go on until only the nodes are left that stay, or until nothing has moved for too long: then False.

        A call that fails is made again in the next pass.
        """
        before, moved_at = self._state, self.clock()
        while True:
            try:
                blocked = await self._pass()
            except (ApiError, GroupError) as error:
                blocked = [str(error).rstrip(".")]
            if blocked is None:
                return True
            self._report_once(blocked)
            if self._state != before:
                before, moved_at = self._state, self.clock()
            elif self.clock() - moved_at >= self.timeout:
                why = first_few(blocked, SHOWN) or "their pods do not end"
                print(
                    f"Nothing has moved for {self.timeout:g} s: {why}. {self._remainder()} Run it again to go on.",
                    file=sys.stderr,
                )
                return False
            await self.sleep(LOOK_SECONDS)

    async def _pass(self) -> list[str] | None:
        """Make one pass, and return what holds it, a sentence each; None if the drain is over."""
        await asyncio.to_thread(self.group.refresh)
        instances = set(self.group.instances) - self._ended
        nodes = await read_nodes(self.kube, instances)
        step = moves([item.node for item in nodes], remain=self.remain, at_once=self.at_once)
        unjoined = sorted(instances - {item.node.instance for item in nodes}) if len(instances) > self.remain else []
        if step.is_over and not unjoined:
            if not await asyncio.to_thread(self.group.finish):
                _say(f"{REBALANCING} stays suspended, as it was. To resume it: {self._resume_command()}")
            print(f"Done: {counted(len(nodes), 'node')} of group {self.group.name} left.")
            return None
        self._leaving = {item.node.name: item for item in nodes if item.node.name not in step.staying}
        pods = {name: [pod.key for pod in item.pods] for name, item in self._leaving.items()}
        self._owners |= {pod.owner_uid for item in self._leaving.values() for pod in item.pods if pod.owner_uid}
        waiting = displaced(await read_waiting(self.kube), self._owners, self.earlier)
        self._state = repr((pods, waiting, unjoined))
        blocked = await self._carry_out(step, waiting)
        return blocked + [f"Instance {instance} is no Node of the cluster yet" for instance in unjoined]

    async def _carry_out(self, step: Moves, waiting: list[str]) -> list[str]:
        """Make the moves, and return what holds others, a sentence each."""
        for name in step.cordon:
            await cordon(self.kube, name)
        if step.cordon:
            _say(f"Cordoned {first_few(list(step.cordon), SHOWN)}.")
        if not await leads(self.leases):
            return [NOBODY_LEADS]
        if waiting:
            return [f"Pod {key} waits for a node (tenon explain pod {key})" for key in waiting]
        blocked: list[str] = []
        for name in step.terminate:
            node = self._leaving[name].node
            try:
                await asyncio.to_thread(self.group.terminate, node.instance)
            except GroupError as error:  # which must not hold the other nodes
                blocked.append(str(error).rstrip("."))
                continue
            self._ended.add(node.instance)
            _say(f"Ended {name} ({node.instance}): it has no pods left.")
        for name in step.drain:
            blocked += await evict(self.kube, self._leaving[name].pods, utc_now())
        return blocked

    def _remainder(self) -> str:
        """What a drain that has stopped leaves behind."""
        nodes = [f"{name} ({counted(len(item.pods), 'pod')})" for name, item in self._leaving.items()]
        return (
            f"Left: {first_few(nodes, SHOWN) or 'no node'}. The nodes stay cordoned, and the process "
            f"{REBALANCING} of Auto Scaling group {self.group.auto_scaling} suspended, also after another run. "
            f"To resume it then: {self._resume_command()}."
        )

    def _resume_command(self) -> str:
        name = self.group.auto_scaling
        return f"aws autoscaling resume-processes --auto-scaling-group-name {name} --scaling-processes {REBALANCING}"

    def _report_once(self, blocked: list[str]) -> None:
        sentence = f"Waiting: {first_few(blocked, SHOWN)}." if blocked else ""
        if sentence and sentence != self._reported:
            _say(sentence)
            self._reported = sentence


def _say(sentence: str) -> None:
    print(f"{utc_now():%H:%M:%S}  {sentence}", flush=True)
