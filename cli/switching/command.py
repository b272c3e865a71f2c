"""What `tenon takeover` and `tenon handback` have in common: find, check, show the plan, ask, carry out, report."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

import typer
from temporalio.service import RPCError

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODES
from cli.confirmation import confirm_beginning
from cli.console import output_console
from cli.diagnosis.finding import DoctorFinding, FindingState
from cli.diagnosis.table import findings_table
from cli.switching import checks
from cli.switching import memory as memories
from cli.switching.definitions import install, is_install_begun, stored_as_v1beta1
from cli.switching.deployments import Workload, replicas_of
from cli.switching.guide import Guide
from cli.switching.leases import LeaseWatch
from cli.switching.memory import Memory
from cli.switching.observing import Watcher
from tenon.apis import labels
from tenon.errors import TenonError
from tenon.kube.timestamps import time_text
from tenon.migration import node_states
from tenon.migration.node_states import NodeChanges
from tenon.migration.switch import Direction, Switch, SwitchPhase
from tenon.sentences import counted, first_few, lasting
from worker.runtime.election.lease import LEASE_NAME
from worker.settings import parse_duration

DEFAULT_REPLICAS = 2
"""Karpenter's and Tenon's own default, for a Deployment that no one remembers with another number."""
SHOWN = 10
WENT_BACK, REFUSED = 1, 2
"""Exit status: the other controller does not lead, or the switch has not ended; nothing was begun."""

KarpenterName = Annotated[
    str | None,
    typer.Option("--karpenter", metavar="NAMESPACE/NAME", help="Karpenter's Deployment; the only one by default."),
]
TenonName = Annotated[
    str | None, typer.Option("--tenon", metavar="NAMESPACE/NAME", help="Tenon's Deployment; the only one by default.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check, show the plan, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Timeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="Go back if the other one is not healthy by then.")
]
Settle = Annotated[
    str, typer.Option("--settle", metavar="DURATION", help="How long to wait for nodes that are starting.")
]
GoBack = Annotated[bool, typer.Option("--go-back", help="Undo one that has not ended, instead of going on.")]


class SwitchError(TenonError):
    """The switch cannot begin. The message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for."""

    direction: Direction
    karpenter: str | None
    tenon: str | None
    dry_run: bool
    yes: bool
    timeout: timedelta
    settle: timedelta
    go_back: bool
    output: str
    cluster: str = ""
    """Whose workflows a handback ends; empty for a takeover."""


def waiting_time(option: str, value: str) -> timedelta:
    """Read a duration of the command line.

    Raises:
        SwitchError: it is none.
    """
    try:
        return parse_duration(value)
    except ValueError as error:
        raise SwitchError(f"{option}: {error}.") from None


async def switch(
    kube: Kube,
    options: Options,
    workloads: tuple[Workload, Workload],
    clear: Callable[[Callable[[str], None]], Awaitable[None]],
    reach: Callable[[], Awaitable[object]] | None = None,
) -> int:
    """Carry the switch out, and return the exit status. ``workloads``: Karpenter's and Tenon's Deployment.

    ``reach`` raises if what ``clear`` needs cannot be reached. It is called before a switch begins, and not when one
    goes on: that may have to go back.

    Raises:
        SwitchError: it cannot begin.
        ApiError: the API server refuses.
    """
    karpenter, tenon = workloads
    remembered = await memories.read(kube, tenon.namespace)
    watcher = await _watcher(kube, karpenter, tenon, options.cluster)
    report = partial(_report, to_stderr=options.output == "json")
    memory = await _resumed(options, remembered, watcher, report)
    findings: list[DoctorFinding] = []
    if memory is None:
        if reach is not None:
            await reach()
        is_takeover = options.direction is Direction.TAKEOVER
        stop_first = is_takeover and bool(await stored_as_v1beta1(kube))
        if is_takeover:
            findings = await checks.before_takeover(kube, karpenter, tenon, stop_first=stop_first)
        else:
            findings = await checks.before_handback(kube, karpenter)
        memory = await _fresh(options, remembered, watcher, stop_first=stop_first)
        nodes = await kube.list(NODES, label_selector=labels.NODEPOOL)
        steps = plan(memory.switch, node_states.unsettled(await watcher.claims(), nodes), options.cluster)
        if options.output == "table":
            output_console().print(findings_table(findings))
            await _show_plan(watcher, memory, steps)
        if any(finding.state is FindingState.FAULT for finding in findings):
            if options.output == "json":
                print(_document(options, watcher, memory, findings, "refused"))
            raise SwitchError("Nothing was changed: correct the faults first.")
        if options.dry_run:
            if options.output == "json":
                print(_document(options, watcher, memory, findings, "planned", steps))
            return 0
        confirm_beginning(SwitchError, yes=options.yes)
    elif options.dry_run:
        raise SwitchError("A switch is under way, so --dry-run has nothing to show: leave it out to go on.")
    guide = Guide(kube, watcher, memory, report, partial(clear, report), partial(install, kube))
    has_ended = await _guided(guide)
    changes, why_none = None, "The cluster has too many nodes to compare them with those from before."
    try:
        changes = await guide.differences()
    except ApiError as error:  # the switch has ended all the same
        why_none = f"The nodes could not be compared with those from before: {error}"
    outcome = guide.memory.switch.phase.value if has_ended else "stuck"
    if options.output == "json":
        print(_document(options, watcher, guide.memory, findings, outcome, changes=changes))
    else:
        _show_differences(changes, why_none)
        if guide.memory.switch.why_back:
            print(f"Went back: {guide.memory.switch.why_back}.", file=sys.stderr)
    return 0 if guide.memory.switch.phase is SwitchPhase.DONE else WENT_BACK


async def _watcher(kube: Kube, karpenter: Workload, tenon: Workload, cluster: str) -> Watcher:
    """Return what looks at both controllers, by their variables.

    Raises:
        SwitchError: Tenon's Deployment is that of another cluster.
    """
    variables, tenons = (await karpenter.variables(kube)).values, (await tenon.variables(kube)).values
    _check_cluster(cluster, tenon, tenons.get("CLUSTER_NAME"))
    leases = LeaseWatch(kube, variables.get("LEADER_ELECTION_NAME") or LEASE_NAME)
    tenons_namespace = tenons.get("LEADER_ELECTION_NAMESPACE") or tenon.namespace
    one_lease = (variables.get("LEADER_ELECTION_NAMESPACE") or karpenter.namespace) == tenons_namespace
    return Watcher(kube, karpenter, tenon, leases, one_lease)


def _check_cluster(cluster: str, tenon: Workload, own: str | None) -> None:
    """Refuse to stop one cluster's Tenon and to end the workflows of another, which may share a Temporal namespace.

    Raises:
        SwitchError: the names differ.
    """
    if cluster and own and own != cluster:
        raise SwitchError(
            f"The Deployment {tenon} has CLUSTER_NAME {own}, but the command names cluster {cluster}: correct "
            "--cluster, or use the kubeconfig of that cluster."
        )


async def _guided(guide: Guide) -> bool:
    """Run the guide, and return whether the switch has ended. Once it has begun, an error is reported and not raised.

    Raises:
        TenonError, RPCError: nothing was stopped yet.
    """
    try:
        return await guide.run()
    except (TenonError, RPCError) as error:
        begun = guide.memory.switch
        if begun.phase is SwitchPhase.BEGUN:
            raise
        name = begun.direction.value
        print(error, file=sys.stderr)
        print(
            f"The {name} has not ended, and Tenon and Karpenter may both be scaled to 0: "
            f"run `tenon {name}` again, or undo it with `tenon {name} --go-back`.",
            file=sys.stderr,
        )
        return False


async def _resumed(
    options: Options, remembered: Memory | None, watcher: Watcher, report: Callable[[str], None]
) -> Memory | None:
    """Return the switch that goes on; None to begin a new one.

    Raises:
        SwitchError: one in the other direction has not ended, or there is nothing to undo.
    """
    is_open = remembered is not None and not remembered.switch.phase.ended
    if remembered is None or not is_open:
        if options.go_back:
            raise SwitchError(f"There is nothing to undo: no {options.direction.value} is under way.")
        return None
    before = remembered.switch
    if before.phase is SwitchPhase.BEGUN and not options.go_back and await _leaver_runs(watcher, before.direction):
        return None  # nothing was changed yet
    if before.direction is not options.direction:
        raise SwitchError(
            f"A {before.direction.value} that began at {time_text(before.began)} has not ended: go on with "
            f"`tenon {before.direction.value}`, or undo it with `tenon {before.direction.value} --go-back`."
        )
    if remembered.karpenter != str(watcher.karpenter):
        raise SwitchError(f"The {before.direction.value} under way is that of {remembered.karpenter}: name it.")
    now = utc_now()
    report(f"The {before.direction.value} of {time_text(before.began)} goes on; it is {before.phase.value}.")
    if options.go_back and before.phase is not SwitchPhase.RETURNING:
        is_installing = before.phase is SwitchPhase.INSTALLING and await is_install_begun(watcher.kube)
        if before.stop_first and (is_installing or before.phase is SwitchPhase.STARTING):
            raise SwitchError("Karpenter cannot read what Tenon's CRDs store: there is no way back from here.")
        return replace(remembered, switch=before.entered(SwitchPhase.RETURNING, now, "a person asked for it"))
    return replace(remembered, switch=replace(before.resumed(now), timeout=options.timeout))


async def _leaver_runs(watcher: Watcher, direction: Direction) -> bool:
    leaver = watcher.karpenter if direction is Direction.TAKEOVER else watcher.tenon
    return replicas_of(await leaver.read(watcher.kube)) > 0


async def _fresh(options: Options, remembered: Memory | None, watcher: Watcher, *, stop_first: bool) -> Memory:
    """Return a switch that begins now."""
    is_takeover = options.direction is Direction.TAKEOVER
    leaver, successor = (watcher.karpenter, watcher.tenon) if is_takeover else (watcher.tenon, watcher.karpenter)
    leaver_then = successor_then = 0
    if remembered is not None:
        before = remembered.switch
        same = before.direction is options.direction
        leaver_then = before.leaver_replicas if same else before.successor_replicas
        successor_then = before.successor_replicas if same else before.leaver_replicas
    claims, pools = await watcher.claims(), await watcher.pools()
    now = utc_now()
    begun = Switch(
        direction=options.direction,
        leaver_replicas=replicas_of(await leaver.read(watcher.kube)) or leaver_then or DEFAULT_REPLICAS,
        successor_replicas=replicas_of(await successor.read(watcher.kube)) or successor_then or DEFAULT_REPLICAS,
        settle=options.settle,
        timeout=options.timeout,
        began=now,
        since=now,
        stop_first=stop_first,
    )
    unready = node_states.unready_pools(pools)
    return Memory(begun, str(watcher.karpenter), node_states.instances(claims), unready)


def _report(sentence: str, *, to_stderr: bool) -> None:
    print(f"{utc_now():%H:%M:%S}  {sentence}", file=sys.stderr if to_stderr else sys.stdout, flush=True)


async def _show_plan(watcher: Watcher, memory: Memory, steps: Sequence[str]) -> None:
    karpenter = checks.available(await watcher.karpenter.read(watcher.kube))
    tenon = checks.available(await watcher.tenon.read(watcher.kube))
    count = len(memory.instances or ())
    print(f"Karpenter: {watcher.karpenter} ({karpenter}). Tenon: {watcher.tenon} ({tenon}). {counted(count, 'node')}.")
    for number, line in enumerate(steps, 1):
        print(f"  {number}. {line}")


def plan(begun: Switch, unsettled: Sequence[str], cluster: str) -> list[str]:
    """Return the steps of a switch as sentences, for people who decide whether to begin it."""
    is_takeover = begun.direction is Direction.TAKEOVER
    leaver, successor = ("Karpenter", "Tenon") if is_takeover else ("Tenon", "Karpenter")
    steps = []
    if is_takeover and not begun.stop_first:
        steps.append(f"Start Tenon if it does not run ({begun.successor_replicas} replicas). It stands by.")
    now = f"; now: {first_few(list(unsettled), SHOWN)}" if unsettled else "; now there are none"
    steps.append(f"Wait up to {lasting(begun.settle)} for nodes in the middle of their lives{now}.")
    steps.append(f"Scale {leaver} to 0, and wait until its pods are gone and its Lease has ended.")
    if begun.stop_first:
        steps.append("Replace Karpenter's CRDs of v1beta1 by Tenon's, and start Tenon. From here there is no way back.")
    if not is_takeover:
        steps.append(f"End Tenon's workflows of cluster {cluster}, and remove its marks from Nodes and NodeClaims.")
        steps.append(f"Scale Karpenter to {begun.successor_replicas}.")
    steps.append(f"Wait until {successor} leads and is healthy.")
    if not begun.stop_first:
        steps.append(
            f"If that takes more than {lasting(begun.timeout)}, scale {leaver} to {begun.leaver_replicas} again, "
            f"and wait until it leads."
        )
    return steps


def _show_differences(changes: NodeChanges | None, why_none: str) -> None:
    if changes is None:
        print(why_none)
        return
    print(f"{counted(changes.unchanged, 'node')} as before: same NodeClaim, same instance.")
    if changes.is_empty:
        print("Nothing was bought or ended.")
    if changes.bought:
        names = first_few(changes.bought, SHOWN)
        print(f"Launched since the beginning, by the controller that led at that time: {names}.")
    if changes.ended:
        print(f"Left since the beginning: {first_few(changes.ended, SHOWN)}.")


def _document(
    options: Options,
    watcher: Watcher,
    memory: Memory,
    findings: Sequence[DoctorFinding],
    outcome: str,
    steps: Sequence[str] = (),
    changes: NodeChanges | None = None,
) -> str:
    document: dict[str, Any] = {
        "direction": options.direction.value,
        "outcome": outcome,
        "karpenter": str(watcher.karpenter),
        "tenon": str(watcher.tenon),
        "checks": [asdict(finding) for finding in findings],
        "plan": list(steps),
        "whyBack": memory.switch.why_back,
        "unchanged": changes.unchanged if changes else None,
        "bought": list(changes.bought) if changes else None,
        "ended": list(changes.ended) if changes else None,
    }
    return json.dumps(document, indent=2)
