"""``tenon explain``: why a node stays or leaves, why a pod waits or is where it is, and what a NodePool does now."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer
from rich.markup import escape

from activities.clock import utc_now
from cli.application import create_app, examples
from cli.console import indented, output_console
from cli.name_completion import node_names, pod_names, pool_names
from cli.options import Catalog, Output
from cli.simulating.progress import show_progress
from cli.simulating.simulation import InputError, Simulation, SimulationInput, simulated, simulation_of, stop_at_faults
from cli.simulating.table import show_node
from cli.waiting_groups import groups_of, require_causes
from tenon.kube.pod_disruption_budgets import selecting
from tenon.kube.records import PodRecord
from tenon.kube.timestamps import format_instant
from tenon.manifests.faults import ManifestError, Source, one_line
from tenon.provisioning.cost_limits import cost_limits, cost_usage, costs_of
from tenon.provisioning.readiness import why_unusable
from tenon.scheduling.explanation.waiting import waiting_text, why_command
from tenon.simulation.document import to_json
from tenon.simulation.placed_pods import why_here
from tenon.simulation.pool_facts import facts_document, pool_facts

app = create_app(
    no_args_is_help=True,
    help="Explain decisions about an object, from the cluster or from files. Changes nothing.",
)

Filenames = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE",
        help="A manifest file or a folder of manifests to read instead of the cluster.",
    ),
]
Now = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="The time of the decisions (RFC 3339). Default: now, and for files the newest time in them.",
    ),
]
Setting = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the worker; repeatable.")
]


def _scope(
    filename: list[str] | None,
    catalog: str | None,
    now: str | None,
    setting: list[str] | None,
    *,
    disruption: bool,
    node: str | None = None,
) -> SimulationInput:
    """What a simulation is asked for: the cluster as it is now, or files."""
    is_live = not filename
    instant = format_instant(utc_now()) if is_live and now is None else now
    return SimulationInput(filename or [], is_live, catalog, disruption, instant, setting or [], node)


@app.callback()
def explain() -> None:
    """Explain decisions about an object, from the cluster or from files. Changes nothing."""


@app.command(epilog=examples("tenon explain node ip-10-0-0-6.ec2.internal", "tenon explain node default-x7k2p -o json"))
def node(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A Node, or its NodeClaim.", autocompletion=node_names)],
    filename: Filenames = None,
    catalog: Catalog = None,
    output: Output = "table",
    now: Now = None,
    setting: Setting = None,
) -> None:
    """Show why a node stays or leaves: pods, budgets, and what a replacement would cost.

    For a cluster outside us-west-2, name the instance types of its region with --catalog: `tenon catalog` writes them.
    """
    scope = _scope(filename, catalog, now, setting, disruption=True, node=name)
    with stop_at_faults(), show_progress("Reading and simulating ..."):
        document = simulated(scope).document
    if output == "json":
        sys.stdout.write(to_json(document))
    else:
        show_node(document, name)


@app.command(epilog=examples("tenon explain pod web-7d9f -n shop", "tenon explain pod shop/web-7d9f -o json"))
def pod(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A pod, also as NAMESPACE/NAME.", autocompletion=pod_names)
    ],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Its namespace. Default: default.")
    ] = None,
    filename: Filenames = None,
    catalog: Catalog = None,
    output: Output = "table",
    now: Now = None,
    setting: Setting = None,
) -> None:
    """Show why a pod waits for a node, with what each NodePool lacks, or why it is on its node."""
    key = name if "/" in name else f"{namespace or 'default'}/{name}"
    if namespace and not key.startswith(f"{namespace}/"):
        print(f"{name} names a namespace, and --namespace another: {namespace}.", file=sys.stderr)
        raise typer.Exit(2)
    with stop_at_faults(), show_progress("Reading and planning ..."):
        simulation = simulation_of(_scope(filename, catalog, now, setting, disruption=False))
        record = simulation.cache.pods.get(key)
        if record is None:
            raise InputError([ManifestError(Source(key), "is no pod of the cluster or of the input")])
        sentences = _of_placed(simulation, record) if record.node_name else _of_waiting(simulation, record)
    if output == "json":
        print(json.dumps({"pod": key, "node": record.node_name, "why": sentences}, indent=2))
    else:
        _show(key, sentences)
        print(f"What happened to it so far: {why_command(key)}", file=sys.stderr)


def _of_placed(simulation: Simulation, record: PodRecord) -> list[str]:
    cache = simulation.cache
    own_node = cache.nodes.get(record.node_name)
    claims = (claim for claim in cache.claims if claim.node_name == record.node_name)
    claim = next((claim for claim in cache.claims if own_node is not None and cache.node_of(claim) is own_node), None)
    budgets = selecting(record.pod, [budget.value for budget in cache.moving.pdbs])
    return list(why_here(record, own_node, claim or next(claims, None), budgets, simulation.now))


def _of_waiting(simulation: Simulation, record: PodRecord) -> list[str]:
    groups = [group for group in groups_of(simulation) if record.key in group.pods]
    require_causes(simulation, groups)
    sentences = [waiting_text(group.waits_for, group.why) for group in groups]
    if not sentences:
        sentences = [f"It has no node and waits for none (phase {record.phase or 'unknown'})"]
    own_notes = [note for note in simulation.notes if note not in simulation.notes_on_others]
    return [*sentences, *map(one_line, own_notes)]


@app.command(epilog=examples("tenon explain nodepool default", "tenon explain nodepool web -f manifests/ -o json"))
def nodepool(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A NodePool.", autocompletion=pool_names)],
    filename: Filenames = None,
    catalog: Catalog = None,
    output: Output = "table",
    now: Now = None,
    setting: Setting = None,
) -> None:
    """Show what a NodePool does now: limits, budgets, why it buys nothing, drift, cheapest types, consolidation."""
    with stop_at_faults(), show_progress("Reading and simulating ..."):
        simulation = simulation_of(_scope(filename, catalog, now, setting, disruption=True))
        view = simulation.view
        pool = next((pool for pool in view.node_pools() if pool.metadata.name == name), None)
        if pool is None or simulation.disruption is None:
            raise InputError([ManifestError(Source(name), "is no NodePool of Tenon in the cluster or in the input")])
        own_costs = cost_usage(name, costs_of(view.purchases(), simulation.decision.pools_with_types))
        facts = pool_facts(
            pool,
            unusable=why_unusable(pool, view.node_class),
            usage=view.pool_usage(name) | own_costs,
            costs=cost_limits(pool, simulation.question.policy),
            engine_pool=next((own for own in simulation.decision.problem.pools if own.name == name), None),
            engine_nodes=simulation.decision.problem.nodes,
            situation=simulation.disruption.situation,
            plan=simulation.document,
            schedules_ask=view.schedules.now(),
        )
        if simulation.not_known:
            of_types = {"Buys": [f"It is not known: {simulation.not_known}"], "Cheapest": [], "Consolidation": []}
            facts = replace(facts, sections={**facts.sections, **of_types})
    if output == "json":
        print(json.dumps(facts_document(facts) | {"notes": list(simulation.notes)}, indent=2))
        return
    console = output_console()
    console.print(f"[bold]NodePool {escape(name)}[/]", highlight=False)
    for title, sentences in facts.sections.items():
        for number, sentence in enumerate(sentences):
            console.print(f"  [bold]{'' if number else title:14}[/]{escape(sentence)}", highlight=False, soft_wrap=True)
    for note in simulation.notes:
        print(f"note: {one_line(note)}", file=sys.stderr)


def _show(name: str, sentences: Sequence[str]) -> None:
    console = output_console()
    console.print(f"[bold]{escape(name)}[/]:", highlight=False)
    for sentence in sentences:
        console.print(indented(sentence))
