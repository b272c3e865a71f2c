"""Moves the pods of a group, pass by pass. It may be stopped at any moment and run again."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from cli.node_groups.group import ScalingGroup
from cli.node_groups.nodes import NodePods, cordon, evict, read_nodes, read_waiting
from cli.node_groups.preconditions import NOBODY_LEADS, SHOWN, leads
from cli.switching.leases import LeaseWatch
from tenon.migration.group_draining import Moves, displaced, moves
from tenon.sentences import counted, first_few

LOOK_SECONDS = 2.0


@dataclass(slots=True)
class Draining:
    """The drain of one group."""

    kube: Kube
    group: ScalingGroup
    leases: LeaseWatch
    """It has seen that Tenon leads."""
    remain: int
    at_once: int
    timeout: float
    """Seconds."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _ended: set[str] = field(default_factory=set)
    """Instances that were ended, and that Auto Scaling may still list."""
    _owners: set[str] = field(default_factory=set)
    """UIDs of the controllers of pods that were on nodes that leave."""
    _reported: str = ""

    async def run(self) -> bool:
        """Go on until only the nodes are left that stay, or until nothing has moved for too long: then False."""
        before, moved_at = "", self.clock()
        earlier = {pod.uid for pod in await read_waiting(self.kube)}
        while True:
            await asyncio.to_thread(self.group.refresh)
            nodes = await read_nodes(self.kube, set(self.group.instances) - self._ended)
            step = moves([item.node for item in nodes], remain=self.remain, at_once=self.at_once)
            if step.is_over:
                await asyncio.to_thread(self.group.finish)
                print(f"Done: {counted(len(nodes), 'node')} of group {self.group.name} left.")
                return True
            leaving = {item.node.name: item for item in nodes if item.node.name not in step.staying}
            self._owners |= {pod.owner_uid for item in leaving.values() for pod in item.pods if pod.owner_uid}
            waiting = displaced(await read_waiting(self.kube), self._owners, earlier)
            blocked = await self._carry_out(step, leaving, waiting)
            self._report_once(blocked)
            state = repr([(item.node.name, [pod.key for pod in item.pods]) for item in nodes] + waiting)
            if state != before:
                before, moved_at = state, self.clock()
            elif self.clock() - moved_at >= self.timeout:
                why = first_few(blocked, SHOWN) or "their pods do not end"
                print(f"Nothing has moved for {self.timeout:g} s: {why}. Run it again to go on.", file=sys.stderr)
                return False
            await self.sleep(LOOK_SECONDS)

    async def _carry_out(self, step: Moves, nodes: dict[str, NodePods], waiting: list[str]) -> list[str]:
        """Make the moves, and return what holds others, a sentence each."""
        for name in step.cordon:
            await cordon(self.kube, name)
        if step.cordon:
            _say(f"Cordoned {first_few(list(step.cordon), SHOWN)}.")
        if not await leads(self.leases):
            return [NOBODY_LEADS]
        if waiting:
            return [f"Pod {key} waits for a node (tenon explain pod {key})" for key in waiting]
        for name in step.terminate:
            node = nodes[name].node
            await asyncio.to_thread(self.group.terminate, node.instance)
            self._ended.add(node.instance)
            _say(f"Ended {name} ({node.instance}): it has no pods left.")
        blocked: list[str] = []
        for name in step.drain:
            blocked += await evict(self.kube, nodes[name].pods, utc_now())
        return blocked

    def _report_once(self, blocked: list[str]) -> None:
        sentence = f"Waiting: {first_few(blocked, SHOWN)}." if blocked else ""
        if sentence and sentence != self._reported:
            _say(sentence)
            self._reported = sentence


def _say(sentence: str) -> None:
    print(f"{utc_now():%H:%M:%S}  {sentence}", flush=True)
