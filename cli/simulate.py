"""``tenon simulate``: plans for the objects in files, without a cluster, AWS or Temporal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from activities.clock import utc_now
from cli.application import create_app, examples
from cli.missing_extra import missing, refuse
from cli.simulating import builtin
from cli.simulating.again import read_problem, solve_again
from cli.simulating.cluster import FiledCache, Pending, fill, floor_pods
from cli.simulating.files import Filenames, read_catalogue_file, read_files
from cli.simulating.progress import show_progress
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.ec2.commitments.coverage import NO_COVERAGE, Coverage
from tenon.ec2.refusals.unavailable import UnavailableOfferings, next_attempt_of
from tenon.ec2.types.capacity_reservations import without_reservations
from tenon.ec2.types.instance_types import without
from tenon.errors import TenonError
from tenon.kube.node_names import AmbiguousNameError
from tenon.kube.offerings import OfferingKey
from tenon.kube.scheduler_config import KIND, NOTHING, DefaultSpread, scheduler_config
from tenon.manifests.concatenated_json import with_separators
from tenon.manifests.faults import ManifestError, Source, in_order, one_line
from tenon.messages.disruption import OpenCommand
from tenon.provisioning.refused_types import refusal_clause
from tenon.rollout.revisions import class_key
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import InstanceType, Pool
from tenon.scheduling.spot_scores import ScoresOf
from tenon.scheduling.type_table import TypeTables
from tenon.simulation import market, stated_scores
from tenon.simulation.class_types import ClassTypes
from tenon.simulation.decisions import Decision, Question, Reserved, decide
from tenon.simulation.defaults import BEGINNING, fill_in, newest_instant
from tenon.simulation.document import Document, plan_document, to_json
from tenon.simulation.market import MarketChange
from tenon.simulation.objects import Objects
from tenon.simulation.reading import finish, read_text
from tenon.simulation.report import Report, report
from tenon.simulation.settings import PlanSettings, read_settings
from tenon.simulation.unclaimed_nodes import add_node_claims
from worker.cache.planning_view import PlanningView
from worker.settings.scheduler_document import default_spread as read_document
from worker.settings.scheduler_document import scheduler_document

if TYPE_CHECKING:  # a plan without --disruption needs nothing of this
    from cli.simulating.disrupting import Disruption

app = create_app()

UNUSABLE = 2
ONLY_BUILT_IN = "the built-in catalogue knows us-west-2 only: name one of your region with --catalog"
MAX_ERRORS = 1000
"""Maximum number of faults that are printed."""


class Form(StrEnum):
    """Output format of the plan."""

    table = "table"
    json = "json"
    html = "html"


class InputError(TenonError):
    """The input cannot be used; ``faults`` contains the reasons."""

    def __init__(self, faults: Iterable[ManifestError]) -> None:
        super().__init__("the input cannot be used")
        self.faults = list(faults)


@app.command(
    epilog=examples(
        "tenon simulate -f nodepool.yaml -f deployment.yaml",
        "tenon simulate --live --disruption",
        "tenon simulate -f manifests/ -o html > plan.html",
    )
)
def simulate(
    filename: Filenames = None,
    live: Annotated[
        bool, typer.Option("--live", help="Add the objects of the kubeconfig's cluster (read only).")
    ] = False,
    catalog: Annotated[
        str | None, typer.Option(metavar="FILE", help="Instance types to use instead of the built-in ones.")
    ] = None,
    output: Annotated[Form, typer.Option("-o", "--output", help="Output format.")] = Form.table,
    disruption: Annotated[
        bool, typer.Option("--disruption", help="Show which nodes would be removed, and why the others stay.")
    ] = False,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Show only why this Node or NodeClaim would be removed or stays. Implies --disruption."
        ),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The time of the decisions (RFC 3339). Default: now with --live, else the newest time in the input.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the worker; repeatable.")
    ] = None,
    spot_score: Annotated[
        list[str] | None,
        typer.Option(metavar="ZONE=SCORE", help="A Spot placement score to plan with, from 1 to 10; repeatable."),
    ] = None,
    problem: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Solve a problem again that the worker saved when its engine failed."),
    ] = None,
) -> None:
    """Show which nodes Tenon would launch for the pods in these manifests, and what they cost."""
    if problem is not None:
        _again(problem)
        return
    scope = Given(
        filename or [],
        live,
        catalog,
        disruption or node is not None,
        now,
        setting or [],
        node,
        spot_scores=spot_score or [],
    )
    with stop_at_faults(), show_progress("Reading and planning ..."):
        shown = simulated(scope)
    if output is Form.json:
        sys.stdout.write(to_json(shown.document))
    elif output is Form.html:
        from tenon.simulation.html_report import to_html

        sys.stdout.write(to_html(shown))
    else:
        from cli.simulating.table import show, show_node

        if node is None:
            show(shown)
        else:
            show_node(shown.document, node)


def _again(problem: Path) -> None:
    try:
        read = read_problem(problem)
    except (OSError, ValueError) as error:
        print(f"{problem} cannot be read: {error}", file=sys.stderr)
        raise typer.Exit(UNUSABLE) from None
    print(solve_again(read))


@dataclass(frozen=True, slots=True)
class Given:
    """What a simulation is asked for, as the options say it."""

    files: list[str]
    live: bool = False
    catalog: str | None = None
    disruption: bool = False
    now: str | None = None
    settings: list[str] = field(default_factory=list)
    node: str | None = None
    """The only Node or NodeClaim whose disruption is of interest."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Manifests besides those in files, by the name that faults give them."""
    market_changes: Sequence[MarketChange] = ()
    spot_scores: Sequence[str] = ()
    """Spot placement scores, as ``zone=score``."""


@contextmanager
def stop_at_faults() -> Iterator[None]:
    """Print the faults of an input that cannot be used, and exit."""
    try:
        yield
    except InputError as error:
        for fault in error.faults[:MAX_ERRORS]:
            print(fault, file=sys.stderr)
        if len(error.faults) > MAX_ERRORS:
            print(f"... and {len(error.faults) - MAX_ERRORS} more", file=sys.stderr)
        raise typer.Exit(UNUSABLE) from None


@dataclass(frozen=True, slots=True)
class Simulation:
    """A cluster as it was read, what Tenon would do for it now, and what of it was asked."""

    view: PlanningView
    cache: FiledCache
    pending: Pending
    question: Question
    decision: Decision
    now: datetime
    notes: Sequence[str]
    """What a reader must know about the input and the plan."""
    unavailable: Mapping[OfferingKey, datetime]
    """What EC2 refuses, with the time when Tenon asks for it again."""
    disruption: Disruption | None = None

    @property
    def document(self) -> Document:
        """The plan as `-o json` prints it."""
        types_by_pool = (
            {pool.metadata.name: types for pool, types in self.decision.pools_with_types} if self.unavailable else {}
        )
        overlay, tables = self.disruption, TypeTables()
        explainer = TypeChoiceExplainer(
            self.decision.problem, types_by_pool, partial(next_attempt_of, self.unavailable)
        )
        return plan_document(
            self.decision.plan,
            problem=self.decision.problem,
            winners=explainer,
            refused=self.pending.refused,
            nominated_pods=self.pending.nominated_pods,
            disruption=overlay.commands if overlay is not None else [],
            staying=overlay.staying if overlay is not None else None,
            before_and_after=overlay.totals if overlay is not None else None,
            forecast=overlay.forecast if overlay is not None else None,
            rollouts=overlay.rollouts if overlay is not None else (),
            lower_bounds=_bounds(self.decision, tables),
            tables=tables,
            solve_seconds=self.decision.seconds,
        )


def simulated(scope: Given) -> Report:
    """Return the report of a simulation, and print its notes.

    Raises:
        InputError: the input cannot be used.
    """
    simulation = simulation_of(scope)
    for note in simulation.notes:
        print(f"note: {one_line(note)}", file=sys.stderr)
    return report(simulation.decision, simulation.document)


def simulation_of(scope: Given) -> Simulation:
    """Read what a simulation is asked for, and decide as the worker would.

    Raises:
        InputError: the input cannot be used.
    """
    if scope.live and (package := missing("worker")):
        refuse("Reading a cluster", "worker", package)
    simulation_settings, faults, notes = read_settings(scope.settings)
    live, disruption, catalog = scope.live, scope.disruption, scope.catalog
    objects = _manifests(scope)
    if not scope.files and not scope.texts and not live:
        faults.append(ManifestError(Source("tenon simulate"), "name manifests with -f, or a cluster with --live"))
    default_spread = _default_spread(simulation_settings.scheduler_config, objects, faults)
    if live:
        from cli.simulating.live import add_live_objects

        faults += add_live_objects(objects, simulation_settings.gates(), with_selectors=bool(default_spread))
    instant = _instant(scope.now, faults)
    types, catalogue_faults = read_catalogue_file(catalog)
    instant = instant or (utc_now() if live else newest_instant(objects))
    finish(objects, instant)
    _stop_at([*faults, *catalogue_faults, *in_order(objects.faults), *_stated_faults(scope, types)])
    if not simulation_settings.gates().reserved_capacity:
        types = without_reservations(types)
    if disruption and not live:
        add_node_claims(objects)
    fill_in(objects, expressions=simulation_settings.aws_gates().node_class_cel)
    if disruption:
        from tenon.simulation.drifted_claims import compare_with_pools

        compare_with_pools(objects, instant, simulation_settings.ca_bundle)
    cache = FiledCache(instant.timestamp(), default_spread)
    cache.deletion_costs_managed = simulation_settings.gates().pod_deletion_cost_management
    pending, undecodable = fill(cache, objects, moving=disruption)
    _stop_at(undecodable)
    view = PlanningView(cache)
    pending.pods.extend(floor_pods(view.floors()))
    unavailable = {
        **(_unavailable(notes) if live else {}),
        **market.unavailable(scope.market_changes, types, utc_now() if instant == BEGINNING else instant),
    }
    if unavailable:
        types = without(types, UnavailableOfferings(unavailable))
    reserved = _reserved(view, notes) if live and simulation_settings.gates().reserved_capacity else None
    notes += [*_notes(objects), *_left_out(cache)]
    class_types = ClassTypes(types, builtin.descriptions, simulation_settings.node_settings)
    question = Question(
        pods=pending.pods,
        types=types,
        types_of=class_types.of,
        policy=simulation_settings.policy(),
        overlays=[
            *(NodeOverlay.model_validate(overlay.body) for overlay in objects.of("NodeOverlay")),
            *market.overlays(scope.market_changes, types),
        ],
        reserved=reserved,
        refused=unavailable,
        coverage=_coverage(view, notes, live=live) if simulation_settings.uses_commitments else NO_COVERAGE,
        scores_of=_scores(scope, view, notes),
    )
    decision = decide(view, question, time.perf_counter)
    notes += decision.notes
    if catalog is None:
        notes += _catalogue_notes(decision, types, unavailable)
    simulation = Simulation(view, cache, pending, question, decision, instant, notes, unavailable)
    if not disruption:
        return simulation
    return replace(simulation, disruption=_disruption_of(simulation, scope, simulation_settings, notes))


def _disruption_of(simulation: Simulation, scope: Given, settings: PlanSettings, notes: list[str]) -> Disruption:
    from cli.simulating.disrupting import disruption_of

    try:
        disruption = disruption_of(
            simulation.view,
            simulation.cache,
            simulation.decision.plan,
            simulation.question,
            simulation.now,
            gates=settings.gates(),
            reboots=settings.aws_gates().reboot_for_repair,
            only=scope.node,
            open_commands=_open_commands(notes) if scope.live else {},
        )
    except AmbiguousNameError as error:
        raise InputError([ManifestError(Source(str(scope.node)), error.problem)]) from None
    if scope.node is not None and not (disruption.commands or disruption.staying):
        where = "in the cluster: see kubectl get nodeclaims" if scope.live else "in the input"
        _stop_at([ManifestError(Source(scope.node), f"is no Node or NodeClaim of a NodePool {where}")])
    return disruption


def _stated_faults(scope: Given, types: Sequence[InstanceType]) -> Iterator[ManifestError]:
    yield from market.problems(scope.market_changes, types)
    yield from stated_scores.problems(scope.spot_scores, types)


def _manifests(scope: Given) -> Objects:
    objects = read_files(scope.files)
    for name, text in scope.texts.items():
        read_text(objects, name, with_separators(text))
    return objects


def _catalogue_notes(
    decision: Decision, types: Sequence[InstanceType], refused: Mapping[OfferingKey, datetime]
) -> Iterator[str]:
    """What the built-in catalogue cannot know of this decision."""
    if any(claim.offering.capacity_type == labels.SPOT for claim in decision.plan.claims):
        yield "spot prices of the built-in catalogue are estimates, the same in every zone"
    for pool in decision.problem.pools:
        if not pool.instance_types and not refusal_clause(types, pool.requirements, refused):
            elsewhere = f"; {ONLY_BUILT_IN}" if _is_elsewhere(pool, types) else ""
            yield f"NodePool {pool.name}: {pool.lacking}{elsewhere}"


def _is_elsewhere(pool: Pool, types: Sequence[InstanceType]) -> bool:
    """Whether the pool's nodes may be in none of the zones or regions that the types are sold in."""
    zones = {offering.zone for kind in types for offering in kind.offerings}
    regions = {region for kind in types for region in kind.requirements.get(labels.REGION).values}
    requirements = pool.requirements
    if pool.zones and zones.isdisjoint(pool.zones):
        return True
    in_zones = any(requirements.get(labels.ZONE).has(zone) for zone in zones)
    return not (in_zones and any(requirements.get(labels.REGION).has(region) for region in regions))


def _reserved(view: PlanningView, notes: list[str]) -> Reserved:
    from cli.simulating.reservations import read_places

    return Reserved(read_places(_node_classes(view), notes), view.reserved_claims())


def _coverage(view: PlanningView, notes: list[str], *, live: bool) -> Coverage:
    if not live:
        notes.append("setting ENABLE_COMMITMENTS has an effect with --live only")
        return NO_COVERAGE
    from cli.simulating.commitments import read_coverage

    return read_coverage(_node_classes(view), list(view.all_claims()), notes)


def _scores(scope: Given, view: PlanningView, notes: list[str]) -> ScoresOf:
    if scope.spot_scores or not scope.live:
        return stated_scores.stated_scores(scope.spot_scores, notes)
    from cli.simulating.spot_scores import LiveScores

    return LiveScores(_node_classes(view), notes).scores_of


def _node_classes(view: PlanningView) -> Iterator[EC2NodeClass]:
    """Yield the EC2NodeClasses of the NodePools."""
    names = {class_key(pool) for pool in view.node_pools()}
    return filter(None, (view.node_class(name) for name in sorted(names)))


def _unavailable(notes: list[str]) -> Mapping[OfferingKey, datetime]:
    from cli.simulating.refusals import read_unavailable

    return read_unavailable(notes)


def _open_commands(notes: list[str]) -> Mapping[str, OpenCommand]:
    from cli.simulating.open_commands import read_open_commands

    return read_open_commands(notes)


def _bounds(decision: Decision, tables: TypeTables) -> tuple[float, float, float]:
    """Lower bounds for the placed pods: of the price, of the price plus the charge per node, and of the sizing cost."""
    from tenon.scheduling.bound import lower_bound_of_sizing, lower_bounds  # loads a solver that only this needs

    charges = (0.0, decision.problem.node_charge)
    price, cost = lower_bounds(decision.problem, charges, left_out=decision.plan.unschedulable, tables=tables)
    return price, cost, lower_bound_of_sizing(decision.problem, decision.plan, tables)


def _default_spread(setting_text: str, objects: Objects, faults: list[ManifestError]) -> DefaultSpread:
    """Default topology spread of pods without constraints, from the setting or from a document among the manifests."""
    try:
        setting = scheduler_document(setting_text)
    except ValueError as error:
        faults.append(ManifestError(Source("--set SCHEDULER_CONFIG"), f"cannot be used: {error}"))
        setting = ""
    default_spread = NOTHING
    for number, (body, source) in enumerate(objects.scheduler_configs):
        if number or setting_text:
            faults.append(ManifestError(source, "there is another configuration of kube-scheduler: keep one", KIND))
            continue
        try:
            default_spread = scheduler_config(body)
        except ValueError as error:
            faults.append(ManifestError(source, str(error), KIND))
    return read_document(setting) if setting else default_spread


def _instant(text: str | None, faults: list[ManifestError]) -> datetime | None:
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is not None:
            return parsed
    except ValueError:
        pass
    faults.append(ManifestError(Source("--now"), f"{text!r} is not a time such as 2026-01-31T12:00:00Z"))
    return None


def _left_out(cache: FiledCache) -> Iterable[str]:
    for name in sorted(cache.pools.left_out):
        yield f"NodePool {name} is left out: its nodeClassRef names no EC2NodeClass, so another controller serves it"


def _notes(objects: Objects) -> Iterable[str]:
    for text, count in objects.notes.items():
        yield f"{text} ({count} times)" if count > 1 else text


def _stop_at(faults: list[ManifestError]) -> None:
    if faults:
        raise InputError(faults)
