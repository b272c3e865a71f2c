"""A simulation: the objects of files or of a cluster, and what Tenon would decide for them as they are."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import typer

from activities.clock import utc_now
from cli.missing_extra import missing, refuse
from cli.simulating import builtin
from cli.simulating.cluster import FiledCache, Pending, fill, floor_pods
from cli.simulating.files import read_catalogue_file, read_files
from cli.simulating.live_sources import (
    live_coverage,
    live_open_commands,
    live_unavailable,
    node_classes,
    reserved_places,
    scores_for,
)
from cli.simulating.notes import catalogue_notes, left_out_notes, object_notes, other_region
from tenon.apis.base import rfc3339
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.ec2.commitments.coverage import NO_COVERAGE
from tenon.ec2.refusals.unavailable import UnavailableOfferings, next_attempt_of
from tenon.ec2.types.capacity_reservations import without_reservations
from tenon.ec2.types.instance_types import without
from tenon.errors import TenonError
from tenon.kube.node_names import AmbiguousNameError
from tenon.kube.offerings import OfferingKey
from tenon.kube.scheduler_config import KIND, NOTHING, DefaultSpread, scheduler_config
from tenon.kube.timestamps import YEARS, format_instant, has_days_around, time_text
from tenon.manifests.concatenated_json import with_separators
from tenon.manifests.faults import ManifestError, Source, in_order, one_line
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import InstanceType
from tenon.simulation import market, stated_scores
from tenon.simulation.class_types import ClassTypes
from tenon.simulation.decisions import PlanQuestion, SolvedProblem, decide
from tenon.simulation.defaults import BEGINNING, fill_in, newest_instant
from tenon.simulation.document import Document, LowerBounds, plan_document
from tenon.simulation.market import MarketChange
from tenon.simulation.objects import Objects
from tenon.simulation.reading import finish, read_text
from tenon.simulation.report import PlanReport, report
from tenon.simulation.settings import PlanSettings, read_settings
from tenon.simulation.unclaimed_nodes import add_node_claims
from worker.cache.planning_view import PlanningView
from worker.scheduler_document import default_spread as read_document
from worker.scheduler_document import scheduler_document

if TYPE_CHECKING:  # a plan without --disruption needs nothing of this
    from cli.simulating.disrupting import SimulatedDisruption

UNUSABLE = 2
MAX_ERRORS = 1000
"""Maximum number of faults that are printed."""


class InputError(TenonError):
    """The input cannot be used; ``faults`` contains the reasons."""

    def __init__(self, faults: Iterable[ManifestError]) -> None:
        super().__init__("the input cannot be used")
        self.faults = list(faults)


@dataclass(frozen=True, slots=True)
class SimulationInput:
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
    question: PlanQuestion
    decision: SolvedProblem
    now: datetime
    notes: Sequence[str]
    """What a reader must know about the input and the plan."""
    unavailable: Mapping[OfferingKey, datetime]
    """What EC2 refuses, with the time when Tenon asks for it again."""
    disruption: SimulatedDisruption | None = None
    notes_on_others: Collection[str] = ()
    """Those of the notes that say of no pod why it waits: what EC2 refuses at all, and which NodePools overlap. The
    reason of a pod names what EC2 refuses that it could use."""
    not_known: str = ""
    """Why it is not known what Tenon buys: no catalogue is named, and the built-in one is of another region."""

    def require_catalogue(self) -> None:
        """Check that the catalogue is one of the cluster's region, so that the plan is one of this cluster.

        Raises:
            InputError: it is not.
        """
        if self.not_known:
            raise InputError([ManifestError(Source("--catalog"), self.not_known)])

    @property
    def document(self) -> Document:
        """The plan as `-o json` prints it."""
        types_by_pool = (
            {pool.metadata.name: types for pool, types in self.decision.pools_with_types} if self.unavailable else {}
        )
        explainer = TypeChoiceExplainer(
            self.decision.problem, types_by_pool, partial(next_attempt_of, self.unavailable)
        )
        return plan_document(
            self.decision.plan,
            problem=self.decision.problem,
            solve_seconds=self.decision.seconds,
            lower_bounds=_bounds(self.decision),
            refused=self.pending.refused,
            nominated_pods=self.pending.nominated_pods,
            disruption=self.disruption.part if self.disruption is not None else None,
            winners=explainer,
            tables=self.decision.tables,
        )


def simulated(scope: SimulationInput) -> PlanReport:
    """Return the report of a simulation, and print its notes.

    Raises:
        InputError: the input cannot be used, or the plan would be one of another region.
    """
    simulation = simulation_of(scope)
    simulation.require_catalogue()
    for note in simulation.notes:
        print(f"note: {one_line(note)}", file=sys.stderr)
    return report(simulation.decision, simulation.document)


def simulation_of(scope: SimulationInput) -> Simulation:
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
    instant = _instant(scope, objects, faults)
    if disruption and scope.files and not live and scope.now is None and instant != BEGINNING:
        notes.append(
            f"the time of the decisions is {time_text(instant)}, the newest in the input: --now states another"
        )
    types, catalogue_faults = read_catalogue_file(catalog)
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
    earlier_notes = len(notes)
    refused = live_unavailable(notes) if live else {}
    refusal_notes = notes[earlier_notes:] if refused else []
    unavailable = {
        **refused,
        **market.unavailable(scope.market_changes, types, utc_now() if instant == BEGINNING else instant),
    }
    if unavailable:
        types = without(types, UnavailableOfferings(unavailable))
    reserved = reserved_places(view, notes) if live and simulation_settings.gates().reserved_capacity else None
    notes += [*object_notes(objects), *left_out_notes(cache)]
    class_types = ClassTypes(types, builtin.descriptions, simulation_settings.node_settings)
    question = PlanQuestion(
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
        coverage=live_coverage(view, notes, live=live) if simulation_settings.uses_commitments else NO_COVERAGE,
        scores_of=scores_for(scope.spot_scores, view, notes, live=scope.live),
    )
    decision = decide(view, question, time.perf_counter)
    notes += decision.notes
    not_known = other_region(node_classes(view)) if catalog is None else ""
    if catalog is None:
        notes += [not_known] if not_known else catalogue_notes(decision, types, unavailable)
    simulation = Simulation(view, cache, pending, question, decision, instant, notes, unavailable, not_known=not_known)
    simulation = replace(simulation, notes_on_others=frozenset((*refusal_notes, *decision.overlaps)))
    if not disruption:
        return simulation
    return replace(simulation, disruption=_disruption_of(simulation, scope, simulation_settings, notes))


def _disruption_of(
    simulation: Simulation, scope: SimulationInput, settings: PlanSettings, notes: list[str]
) -> SimulatedDisruption:
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
            open_commands=live_open_commands(notes) if scope.live else {},
        )
    except AmbiguousNameError as error:
        raise InputError([ManifestError(Source(str(scope.node)), error.problem)]) from None
    if scope.node is not None and not (disruption.part.commands or disruption.part.staying):
        where = "in the cluster: see kubectl get nodeclaims" if scope.live else "in the input"
        _stop_at([ManifestError(Source(scope.node), f"is no Node or NodeClaim of a NodePool {where}")])
    return disruption


def _stated_faults(scope: SimulationInput, types: Sequence[InstanceType]) -> Iterator[ManifestError]:
    yield from market.problems(scope.market_changes, types)
    yield from stated_scores.problems(scope.spot_scores, types)


def _manifests(scope: SimulationInput) -> Objects:
    objects = read_files(scope.files)
    for name, text in scope.texts.items():
        read_text(objects, name, with_separators(text))
    return objects


def _bounds(decision: SolvedProblem) -> LowerBounds:
    """The bounds for the placed pods."""
    from tenon.scheduling.bound.lower_bound import lower_bound_of_sizing, lower_bounds  # only this needs it

    tables = decision.tables
    charges = (0.0, decision.problem.node_charge)
    price, cost = lower_bounds(decision.problem, charges, left_out=decision.plan.unschedulable, tables=tables)
    return LowerBounds(price, cost, lower_bound_of_sizing(decision.problem, decision.plan, tables))


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


def _instant(scope: SimulationInput, objects: Objects, faults: list[ManifestError]) -> datetime:
    """The time of the decisions.

    Raises:
        InputError: the calendar has no days around it.
    """
    instant = utc_now() if scope.live else newest_instant(objects)
    if scope.now is not None:
        try:
            instant = rfc3339(scope.now)
        except ValueError as error:
            faults.append(ManifestError(Source("--now"), str(error)))
    if not has_days_around(instant):
        sentence = f"{scope.now or format_instant(instant)} is not {YEARS}: state another time"
        raise InputError([*faults, ManifestError(Source("--now"), sentence)])
    return instant


def _stop_at(faults: list[ManifestError]) -> None:
    if faults:
        raise InputError(faults)
