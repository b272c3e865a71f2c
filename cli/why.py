"""``tenon why``: why a node was bought or removed, why a pod is pending, what a NodePool does; live or gone."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import typer

from activities.clock import utc_now
from cli.application import create_app
from cli.console import output_console
from cli.context import resolve_if_known
from cli.name_completion import node_names
from cli.options import Catalog, Output
from cli.record_source import RecordOption, chosen_record
from cli.record_times import SinceOption, instant_of
from cli.simulating.progress import show_progress
from cli.why_reading.kubernetes import KubernetesReader
from cli.why_reading.questions import Sources
from cli.why_reading.record import RecordReader
from cli.why_reading.temporal import TemporalReader
from tenon.kube.node_names import AmbiguousNameError
from tenon.record.why.answer import Answer, Consulted, FactSource, Line, to_document
from tenon.record.why.node import why_node
from tenon.record.why.node_life import NodeSources
from tenon.record.why.pod import PodSources, needs_simulation, why_pod
from tenon.record.why.pool import PoolSources, why_pool

app = create_app()

UNKNOWN, UNUSABLE = 1, 2
"""Exit status: no source knows the object; none could be asked, or an option cannot be used."""
KINDS = {
    "node": "node",
    "nodes": "node",
    "nodeclaim": "node",
    "nodeclaims": "node",
    "pod": "pod",
    "pods": "pod",
    "nodepool": "nodepool",
    "nodepools": "nodepool",
    "pool": "nodepool",
}


@app.command(
    epilog="\b\nExamples:\n"
    "  tenon why ip-10-0-1-7.ec2.internal\n"
    "  tenon why i-0abc1234def56789a --since 90d\n"
    "  tenon why pod/shop/web-5d7c9-x2k4p\n"
    "  tenon why nodepool/default --record s3://archive/tenon -o json"
)
def why(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A NodeClaim, Node, instance or NodePool; a pod as NAMESPACE/NAME. With node/, pod/ or nodepool/ "
            "before it, only that kind.",
            autocompletion=node_names,
        ),
    ],
    since: SinceOption = "30d",
    record: RecordOption = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Name of the cluster.")
    ] = None,
    catalog: Catalog = None,
    output: Output = "table",
) -> None:
    """Say why, on one page: why a node was bought and who removed it, or why a pod is pending.

    It reads the record, Temporal and Kubernetes, and names the source of each line. It works without any of them, and
    for objects that are gone. The exit status is 1 if no source knows the object, and 2 if none could be asked.
    """
    if not all(name.split("/")):  # the API server answers a request without a name with all objects
        print(f"{name!r} names no object: a part of it is empty.", file=sys.stderr)
        raise typer.Exit(UNUSABLE)
    try:
        began = instant_of(since, utc_now())
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(UNUSABLE) from None
    context = resolve_if_known(cluster)
    if context is not None:
        context.apply()
    cluster_name = context.cluster if context is not None else ""
    reader = RecordReader(chosen_record(record), began, cluster_name)
    with show_progress("Asking the record, Temporal and Kubernetes ..."):
        try:
            sources, consulted = asyncio.run(_read(name, reader, cluster_name))
        except AmbiguousNameError as error:
            print(error, file=sys.stderr)
            raise typer.Exit(UNUSABLE) from None
        if isinstance(sources, PodSources) and needs_simulation(sources):
            sources, outcome = simulate_pod(sources, catalog)
            consulted.append(outcome)
    answer = _answer_of(sources)
    answer = replace(answer, hints=[*answer.hints, *reader.hints()], consulted=consulted)
    is_unasked = answer.is_empty and not any(item.is_answer for item in consulted)
    if is_unasked:
        answer = replace(answer, headline=f"No source could be asked about {answer.name}")
    if output == "json":
        print(json.dumps(to_document(answer), indent=2))
    else:
        _show(answer)
    if answer.is_empty:
        raise typer.Exit(UNUSABLE if is_unasked else UNKNOWN)


async def _read(
    name: str, record: RecordReader, cluster: str
) -> tuple[NodeSources | PodSources | PoolSources, list[Consulted]]:
    """Ask the sources. A bare name may be that of a node or else of a NodePool."""
    kind, subject = _kind_of(name)
    kubernetes = await KubernetesReader.open()
    try:
        temporal = await TemporalReader.open(cluster)
        ask = Sources(record, temporal, kubernetes)
        sources: NodeSources | PodSources | PoolSources
        if kind == "pod":
            sources = await ask.pod(subject)
        elif kind == "nodepool":
            sources = await ask.pool(subject)
        else:
            sources = await ask.node(subject)
            if not kind and why_node(sources).is_empty:
                of_pool = await ask.pool(subject)
                sources = of_pool if of_pool.exists or of_pool.entries else sources
        return sources, [record.consulted(), temporal.consulted(), kubernetes.consulted()]
    finally:
        await kubernetes.close()


def _kind_of(name: str) -> tuple[str, str]:
    """Split ``pod/NAMESPACE/NAME`` and the like. A kind that is not named is empty."""
    first, slash, rest = name.partition("/")
    kind = KINDS.get(first.lower(), "") if slash else ""
    if kind == "pod":
        return kind, rest if "/" in rest else f"default/{rest}"
    if kind:
        return kind, rest
    return ("pod" if slash else ""), name


def _answer_of(sources: NodeSources | PodSources | PoolSources) -> Answer:
    match sources:
        case NodeSources():
            return why_node(sources)
        case PodSources():
            return why_pod(sources)
        case PoolSources():
            return why_pool(sources)


def simulate_pod(sources: PodSources, catalog: str | None = None) -> tuple[PodSources, Consulted]:
    """Plan the pending pods of the cluster as `tenon simulate --live` does, and add what that says of the pod."""
    from cli.simulating.simulation import InputError, SimulationInput, simulated
    from tenon.simulation.document import reason_of

    try:
        document = simulated(SimulationInput([], True, catalog)).document
    except InputError as error:
        return sources, Consulted(FactSource.SIMULATION, str(error.faults[0]), is_answer=False)
    outcome = Consulted(FactSource.SIMULATION, "the pending pods were planned, because no other source says why")
    for entry in document["unschedulable"]:
        if entry["pod"] == sources.key:
            return replace(sources, simulated_reason=reason_of(entry)), outcome
    for entry in document["nodeClaims"]:
        if sources.key in entry["pods"]:
            node = f"{entry['offering']['instanceType']} of NodePool {entry['nodePool']} would be bought for it"
            return replace(sources, simulated_place=node), outcome
    for entry in document["existingNodes"]:
        if sources.key in entry["pods"]:
            return replace(sources, simulated_place=f"it has room on {entry['name']}"), outcome
    return sources, outcome


def _show(answer: Answer) -> None:
    console = output_console()
    for line in _lines(answer):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _lines(answer: Answer) -> Iterator[str]:
    yield f"{answer.headline or f'No source knows anything of {answer.name}'}."
    for section in answer.sections:
        yield ""
        yield section.question
        yield from map(_text, section.lines)
    yield ""
    yield from (f"{item.source.value}: {item.outcome}." for item in answer.consulted)
    yield from (f"{hint}." for hint in answer.hints)


def _text(line: Line) -> str:
    at = f"{line.at:%Y-%m-%d %H:%M:%S}  " if line.at is not None else ""
    return f"  {at}{line.text}  [{line.source.value}]"
