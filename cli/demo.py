"""``tenon demo``: scales a Deployment up and down on a real sandbox. It exits 0 only if it observed every step."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import DEPLOYMENTS, NODEPOOLS, NODES
from cli.application import create_app, examples
from cli.demo_progress import APP, PODS, DemoProgress, NotSeenError
from cli.demo_tour import EXAMPLES, Tour, live_claims, node_link, run_command
from tenon.apis.conditions import READY
from tenon.apis.reasons import camel_case
from tenon.kube.conditions import is_true
from tenon.node.state import NodeClaimResult
from worker.runtime.temporal.temporal_client import TemporalError, connect
from workflows import names

app = create_app()

MANIFESTS = ("ec2nodeclass.yaml", "nodepool.yaml", "inflate.yaml")
BIN = Path(sys.executable).parent
"""Where `tenon` and `kubectl` are."""
TTL = "15s"
COST_INTERVAL = "1m"
"""So that the record soon has the lower bound of the price, which the leader computes once in an interval."""


@app.command(
    epilog=examples(
        "tenon demo",
        "tenon demo --tour --keep",
    )
)
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the sandbox and the worker running.")] = False,
    tour: Annotated[
        bool, typer.Option("--tour", help="Then show seven commands on the living sandbox, each after Enter.")
    ] = False,
    state: Annotated[Path | None, typer.Option(metavar="FOLDER", help="State folder of the sandbox.")] = None,
) -> None:
    """Start the sandbox and a worker, scale a Deployment up and down, and show what happens to its nodes."""
    from cli.sandbox_worker import log_of, metrics_address, start_worker
    from sandbox import stale_worker
    from sandbox.build import BuildError
    from sandbox.cluster import Sandbox
    from sandbox.errors import SandboxError
    from sandbox.kubectl import KubectlError
    from sandbox.progress import shown
    from sandbox.tools import MissingToolError

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)  # a pipe has no width limit
    began = time.monotonic()
    attached = Sandbox.find(state)
    try:
        if attached is not None:
            sandbox = attached
        else:
            with shown(console) as on_progress:
                sandbox = Sandbox.start(state, on_progress=on_progress, detach=keep)
    except (SandboxError, BuildError, MissingToolError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    stale_worker.stop(sandbox.layout.root)
    os.environ.update(sandbox.worker_env() | {"KUBECONFIG": str(sandbox.kubeconfig)})
    os.environ.setdefault("COST_INTERVAL", COST_INTERVAL)
    worker = None
    try:
        if sandbox.layout.node_process.exists():
            sandbox.install()  # on a real node the worker runs in pods
        else:
            worker = start_worker(sandbox)
        console.print(f"sandbox and worker are up after {time.monotonic() - began:.1f} s")
        console.print(f"{_ui(sandbox)}kubeconfig: {sandbox.kubeconfig}")
        asyncio.run(_play(console, sandbox, tour=tour, state=state))
    except (NotSeenError, SandboxError, KubectlError, TemporalError, ApiError) as error:
        where = log_of(sandbox) if worker else f"`kubectl logs -n {sandbox.namespace} deployment/tenon`"
        console.print(f"[bold red]{error}[/]; the worker's log: {where}")
        raise typer.Exit(1) from None
    finally:
        if keep:
            console.print(f"\nThe sandbox and the worker keep running. {_ui(sandbox)}")
            if metrics := metrics_address(sandbox.layout.root):
                console.print(f"Metrics: [link]{metrics}[/]", soft_wrap=True)
            for line in how_to_use(sandbox.kubeconfig, sandbox.layout.root if state is not None else None):
                console.print(line, soft_wrap=True, markup=False)
        else:
            stale_worker.stop(sandbox.layout.root)
            if attached is None:
                sandbox.stop()


def how_to_use(kubeconfig: Path, folder: Path | None) -> list[str]:
    """Return the lines that say how a shell uses and stops a sandbox. ``folder``: that of ``--state``, or None."""
    exports = {"KUBECONFIG": str(kubeconfig)}
    stop = ["tenon", "sandbox", "down"]
    if folder is not None:  # commands learn the cluster, Temporal and the record from there
        exports["TENON_SANDBOX_DIR"] = str(folder)
        stop += ["--state", str(folder)]
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in exports.items())
    return [f"To use it:  export {settings} PATH={BIN}:$PATH", f"To stop it: {shlex.join(stop)}"]


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, overflow="fold")  # not cut, however narrow the terminal is
    return table


def _ui(sandbox: Any) -> str:
    """Where Temporal's UI is, if it has one."""
    return f"Temporal UI: [link]{sandbox.temporal_ui}[/]   " if sandbox.temporal_ui else ""


async def _play(console: Console, sandbox: Any, *, tour: bool, state: Path | None) -> None:
    kube = await Kube.connect(str(sandbox.kubeconfig))
    temporal = await connect()
    ec2 = sandbox.ec2()
    story = DemoProgress(console, kube, temporal, sandbox.cluster_name, partial(_instance_state, ec2))
    try:
        await _prepare(story, kube, sandbox)
        first = await _scale_up(story, kube)
        await _scale_down(story, kube, first)
        await _delete_node(story, kube)
        rejected = ec2.rejections()
        if rejected:
            raise NotSeenError(f"the kubelet rejected pods: {rejected}")
        await _report(console, story, temporal, sandbox)
        if tour:
            if state is not None:
                os.environ["TENON_SANDBOX_DIR"] = str(state)
            await Tour(console, sandbox, kube, story, run_command).play()
        await _say_what_next(console, sandbox, kube)
    finally:
        await kube.close()


async def _say_what_next(console: Console, sandbox: Any, kube: Kube) -> None:
    """Print commands for the nodes that run now, and where Temporal's UI shows one of them."""
    console.rule("[bold]What to try next")
    claims = await live_claims(kube)
    name = claims[-1].name if claims else "NAME"
    for command, about in (
        ("tenon top", "all nodes live"),
        ("tenon node list", "how full, how old, what they cost"),
        (f"tenon node show {name}", "why it was bought, and its life"),
        (f"tenon explain node {name}", "why it stays"),
        ("tenon simulate --live", "what would be bought now"),
        (f"tenon node drain {name} --dry-run", "what a drain would move"),
        ("tenon sandbox fault list", "what may go wrong, to try it"),
        ("tenon demo --tour --keep", "all of that, step by step"),
    ):
        console.print(f"  [bold]{command:44}[/] {about}", soft_wrap=True)
    if claims and (link := node_link(sandbox.temporal_ui or "", sandbox.cluster_name, name)):
        console.print(f"  this node in Temporal's UI: [link]{link}[/]", soft_wrap=True)


def _instance_state(ec2: Any, instance_id: str) -> str:
    """Return an instance's state in EC2, or ``gone`` if EC2 no longer lists it."""
    return next((str(i["state"]) for i in ec2.instances() if i["id"] == instance_id), "gone")


async def _prepare(story: DemoProgress, kube: Kube, sandbox: Any) -> None:
    story.scene("Create an EC2NodeClass, a NodePool and a Deployment with 0 replicas")
    sandbox.apply([EXAMPLES / name for name in MANIFESTS])
    patch = {"spec": {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": TTL}}}
    await kube.patch(NODEPOOLS, "default", patch)
    await _scale(kube, 0)

    async def ready() -> bool:
        return is_true(await kube.get(NODEPOOLS, "default") or {}, READY)

    await story.until("NodePool default is Ready", ready)
    story.report("pool ready", "NodePool default is Ready", "green")


async def _scale(kube: Kube, replicas: int) -> None:
    await kube.patch(DEPLOYMENTS, APP, {"spec": {"replicas": replicas}}, namespace="default")


async def _scale_up(story: DemoProgress, kube: Kube) -> list[str]:
    story.scene(f"Scale {APP} from 0 to {PODS}")
    await _scale(kube, PODS)
    story.report("scaled up", f"scaled to {PODS}")
    await story.until(f"{PODS} pods Running", lambda: story.all_running(APP, PODS))
    story.report("up", f"{PODS} pods bound and Running", "bold green")
    return list(story.claims)


async def _scale_down(story: DemoProgress, kube: Kube, claims: list[str]) -> None:
    story.scene(f"Scale {APP} from {PODS} to 0; consolidateAfter is {TTL}")
    await _scale(kube, 0)
    story.report("scaled down", "scaled to 0")

    async def empty() -> bool:
        return not await story.pods(APP)

    await story.until("no pods", empty)
    story.report("empty", f"nodes are empty; Tenon removes them after {TTL}")
    for claim in claims:
        await story.until(f"NodeClaim {claim} gone and its instance terminated", partial(story.gone, claim))
        story.report(f"{claim} gone", f"instance terminated, NodeClaim {claim} gone", "bold green")


async def _delete_node(story: DemoProgress, kube: Kube) -> None:
    story.scene(f"Scale {APP} to {PODS}, then delete the Node that runs the pods")
    before = set(story.claims)
    await _scale(kube, PODS)
    await story.until(f"{PODS} pods Running", lambda: story.all_running(APP, PODS))
    story.report("up again", f"{PODS} pods Running again", "green")
    claim = next(name for name in story.claims if name not in before)
    node = next(pod["spec"]["nodeName"] for pod in await story.pods(APP))
    owner = (await kube.get(NODES, node) or {}).get("metadata", {}).get("ownerReferences", [{}])[0].get("name")
    claim = owner or claim
    await kube.delete(NODES, node)
    story.report("deleted", f"kubectl delete node {node}")
    await story.until(f"node {node} drained and its instance terminated", lambda: story.gone(claim))
    story.report("drained by delete", f"drained gracefully, instance of {node} terminated", "green")
    await story.until("pods Running elsewhere", lambda: story.all_running(APP, PODS))
    nodes = {pod["spec"]["nodeName"] for pod in await story.pods(APP)}
    if node in nodes:
        raise NotSeenError(f"pods are still on {node}")
    story.report("elsewhere", f"{PODS} pods Running on {', '.join(sorted(nodes))}", "bold green")


async def _report(console: Console, story: DemoProgress, temporal: Client, sandbox: Any) -> None:
    console.rule("[bold]Summary")
    facts = _table("step", "seconds")
    facts.add_row(f"first {PODS} pods, from Pending to Running", f"{story.seconds('scaled up', 'up'):.1f}")
    drain_seconds = story.seconds("deleted", "drained by delete")
    facts.add_row("from `kubectl delete node` to the end of its instance", f"{drain_seconds:.1f}")
    console.print(facts)
    lives = _table("NodeClaim", "instance", "type", "zone", "capacity", "$/h", "events", "left because")
    for name, state in story.claims.items():
        events, life = await _history(temporal, names.nodeclaim_id(sandbox.cluster_name, name))
        i = state.instance
        assert i is not None
        ended = camel_case(life.reason) if life else "(still running)"
        lives.add_row(name, i.id, i.instance_type, i.zone, i.capacity_type, f"{i.price:.4f}", str(events), ended)
    console.print(lives)


async def _history(temporal: Client, workflow_id: str) -> tuple[int, NodeClaimResult | None]:
    """Count the events over all runs of a node workflow, and return its result if it has ended."""
    events = 0
    life = None
    async for run in temporal.list_workflows(f'WorkflowId = "{workflow_id}"'):
        handle = temporal.get_workflow_handle(workflow_id, run_id=run.run_id, result_type=NodeClaimResult)
        async for event in handle.fetch_history_events():
            events += 1
            if event.HasField("workflow_execution_completed_event_attributes"):
                life = await handle.result()
    return events, life
