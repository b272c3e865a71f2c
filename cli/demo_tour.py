"""The guided tour after the demo: each step says what it shows, then runs its command on the living sandbox."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from cli.demo_progress import APP, PODS, DemoProgress, NotSeenError
from cli.temporal_ui import TemporalUi
from tenon.kube.claim_record import ClaimRecord
from workflows import names

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
RunCommand = Callable[[list[str]], Awaitable[int]]
"""Runs a command line of `tenon` with its output on this terminal, and returns its exit status."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the tour."""

    about: str
    command: list[str]
    follow: Callable[[], Awaitable[None]] | None = None
    """Watches what the command has begun until it has happened."""


def node_link(ui: str, cluster: str, claim: str) -> str:
    """Return where Temporal's UI shows a node; empty without a UI."""
    return TemporalUi(ui, "default").workflow(names.nodeclaim_id(cluster, claim)) if ui else ""


async def live_claims(kube: Kube) -> list[ClaimRecord]:
    """Return the NodeClaims whose nodes run and stay, the oldest first."""
    claims = [claim for claim in map(ClaimRecord.of, await kube.list(NODECLAIMS)) if claim.initialized]
    return sorted((claim for claim in claims if not claim.deleting), key=lambda claim: str(claim.created_at))


class Tour:
    """Seven steps on the sandbox that the demo has left."""

    def __init__(self, console: Console, sandbox: Any, kube: Kube, story: DemoProgress, run: RunCommand) -> None:
        self._console = console
        self._sandbox = sandbox
        self._kube = kube
        self._story = story
        self._run = run

    async def play(self) -> None:
        """Run each step, after Enter if a person sits at the terminal.

        Raises:
            NotSeenError: a command failed, or what it began did not happen in time.
        """
        steps = [self._list, self._show, self._explain, self._simulate, self._ui, self._force_drain, self._interrupt]
        for number, make in enumerate(steps, 1):
            step = await make()
            self._console.rule(f"[bold]{number} of {len(steps)}")
            self._console.print(step.about, highlight=False)
            if step.command:
                self._console.print(f"[bold]$ {shlex.join(step.command)}[/]", highlight=False, soft_wrap=True)
            await self._wait_for_enter()
            if step.command and (status := await self._run(step.command)):
                raise NotSeenError(f"{shlex.join(step.command)} ended with status {status}")
            if step.follow is not None:
                await step.follow()

    async def _wait_for_enter(self) -> None:
        if sys.stdin.isatty():
            await asyncio.to_thread(input, "Enter goes on ... ")

    async def _claim(self) -> ClaimRecord:
        claims: list[ClaimRecord] = []

        async def there() -> bool:
            claims[:] = await live_claims(self._kube)
            return bool(claims)

        await self._story.until("a node that runs", there)
        return claims[-1]

    async def _list(self) -> Step:
        return Step("All nodes: how full, how old, what they cost, which stage.", ["tenon", "node", "list"])

    async def _show(self) -> Step:
        claim = await self._claim()
        about = "One node: why it was bought, and its life as a timeline. It answers after its end too."
        return Step(about, ["tenon", "node", "show", claim.name])

    async def _explain(self) -> Step:
        claim = await self._claim()
        about = "Why it stays: pods, budgets, and what a replacement would cost."
        return Step(about, ["tenon", "explain", "node", claim.name])

    async def _simulate(self) -> Step:
        about = "What Tenon would buy for ten larger pods, on this cluster as it is. Nothing is changed."
        pods = str(EXAMPLES / "simulate" / "large-10.yaml")
        return Step(about, ["tenon", "simulate", "--live", "-f", pods])

    async def _ui(self) -> Step:
        link = node_link(self._sandbox.temporal_ui or "", self._sandbox.cluster_name, (await self._claim()).name)
        if not link:
            return Step("This sandbox's Temporal has no UI: only the dev server brings one.", [])
        about = (
            f"The same node in Temporal's UI, where you can also drain or keep it:\n[link]{link}[/]\n"
            "Open it: the tab User Metadata has the details. More Actions has Send a Signal and Send an Update;\n"
            "the button Request Cancellation drains the node."
        )
        return Step(about, [])

    async def _force_drain(self) -> Step:
        claim = await self._claim()
        about = "Take the node away now: its pods are deleted at once, and Tenon buys a node for their successors."
        command = ["tenon", "node", "force-drain", claim.name, "--yes", "--reason", "the tour", "--wait"]
        return Step(about, command, self._pods_run)

    async def _interrupt(self) -> Step:
        about = "EC2 takes the spot instance back with two minutes' notice, which is in the interruption queue."
        claim = await self._claim()

        async def replaced() -> None:
            await self._story.until(f"NodeClaim {claim.name} gone", lambda: self._is_gone(claim.name))
            self._story.report(f"{claim.name} taken back", f"{claim.node_name} drained before EC2 ended it", "green")
            await self._pods_run()

        command = ["tenon", "sandbox", "fault", "spot-interrupted", "--instance", claim.instance_id]
        return Step(about, command, replaced)

    async def _is_gone(self, claim: str) -> bool:
        return await self._kube.get(NODECLAIMS, claim) is None

    async def _pods_run(self) -> None:
        self._story.scene("What follows")
        await self._story.until("all pods Running again", self._all_run)
        self._story.report(f"running {self._story.scenes}", "all pods Running again", "bold green")

    async def _all_run(self) -> bool:
        return await self._story.all_running(APP, PODS)


async def run_command(command: list[str]) -> int:
    """Run a command line of ``tenon`` with this Python."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", *command[1:], stdin=asyncio.subprocess.DEVNULL
    )
    return await process.wait()
