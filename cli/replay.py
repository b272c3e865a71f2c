"""``tenon replay``: runs today's engine on the kept inputs of past decisions, and says which of them change."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Annotated, NoReturn, TypeVar

import typer

from activities.clock import utc_now
from activities.record.documents import DocumentError
from activities.record.plan_inputs import PlanInputStore
from cli.application import create_app
from cli.console import output_console
from cli.context import resolve_if_known
from cli.options import Output
from cli.record_source import STANDARD_INPUT, RecordError, RecordOption, chosen_record, open_record
from cli.record_times import SinceOption, UntilOption, instant_of
from cli.simulating.progress import show_progress
from tenon.disruption.deciding import decide
from tenon.provisioning.input_documents import UnreadableInputsError
from tenon.provisioning.replay import (
    TOLERANCE,
    WORST,
    Comparison,
    Replay,
    compare,
    document,
    failure,
    headline,
    sentence,
)
from tenon.provisioning.solving import BatchSolver
from tenon.record.entries import DisruptionEntry, PlanEntry
from tenon.replay.decision_inputs import DecisionInputs
from tenon.replay.decisions import (
    DecisionChange,
    DecisionReplay,
    compare_decisions,
    decision_document,
    decision_headline,
    decision_sentence,
    failed_decision,
)
from tenon.scheduling.deadline import Expired
from tenon.scheduling.model import Problem
from tenon.sentences import counted
from worker.record.plan_inputs import document_store
from worker.settings.record_sinks import FILE, RecordSink, parse_record_sink

app = create_app()

CHANGED, UNUSABLE = 1, 2
"""Exit status: decisions are worse; the record cannot be read."""
NO_INPUTS = "the record has no inputs of it: a worker keeps them if RECORD_SINKS has a file or a bucket"
GONE = "the inputs are not in the store any more"
_Entry = TypeVar("_Entry", PlanEntry, DisruptionEntry)
_Inputs = TypeVar("_Inputs")
StoreOf = Callable[[str], PlanInputStore]
"""Returns the store of a cluster."""


@app.command(
    epilog="\b\nExamples:\n"
    "  tenon replay --since 7d\n"
    "  tenon replay --record s3://archive/tenon --cluster prod -o json\n"
    "  tenon replay --limit 100 --tolerance 0.01"
)
def replay(
    since: SinceOption = "30d",
    until: UntilOption = None,
    record: RecordOption = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Only decisions of this cluster."),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(metavar="NUMBER", min=1, help="The most plans, and the most disruption decisions: the newest."),
    ] = 1000,
    plan_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="The time limit of each decision, as in the worker.")
    ] = 60.0,
    tolerance: Annotated[
        float, typer.Option(metavar="DOLLARS", min=0, help="By how much an hour a decision may be dearer.")
    ] = TOLERANCE,
    output: Output = "table",
) -> None:
    """Replay past plans and disruptions with today's engine, and show which decisions change and what that costs.

    The exit status is 1 if a decision is dearer, places fewer pods, saves less, removes a node that a rule kept, leaves
    one that must go, or fails, and 2 if the record cannot be read.
    """
    now = utc_now()
    try:
        began, ended = instant_of(since, now), instant_of(until, now) if until else None
    except ValueError as error:
        _stop(str(error))
    context = resolve_if_known(cluster)
    if context is not None:
        context.apply()
    cluster_name = context.cluster if context is not None else ""
    location = chosen_record(record)
    if not location or location == STANDARD_INPUT:
        _stop("Which record? Name a file or s3://BUCKET/PREFIX with --record, in which a worker keeps its plans.")
    try:
        with show_progress("Reading the record ..."):
            plans, disruptions = _entries(location, cluster_name, began, ended, limit)
        store_of = _store_of(location)
        result = _replayed(plans, store_of, plan_seconds)
        decisions = _replayed_disruption(disruptions, store_of, plan_seconds)
    except RecordError as error:
        _stop(str(error))
    if output == "json":
        answer = {**document(result, tolerance), "disruption": decision_document(decisions, tolerance)}
        print(json.dumps(answer, indent=2))
    else:
        _show(result, decisions)
    if result.regressions(tolerance) or decisions.regressions(tolerance):
        raise typer.Exit(CHANGED)


def _stop(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    raise typer.Exit(UNUSABLE)


def _entries(
    record: str, cluster: str, began: datetime, ended: datetime | None, limit: int
) -> tuple[Sequence[PlanEntry], Sequence[DisruptionEntry]]:
    plans: deque[PlanEntry] = deque(maxlen=limit)
    disruptions: deque[DisruptionEntry] = deque(maxlen=limit)
    for entry in open_record(record, cluster).entries(began, ended):
        if isinstance(entry, PlanEntry):
            plans.append(entry)
        elif isinstance(entry, DisruptionEntry):
            disruptions.append(entry)
    return plans, disruptions


def _store_of(record: str) -> StoreOf:
    """Return what finds the store of inputs that belongs to the record."""
    place = parse_record_sink(record) if "://" in record else RecordSink(FILE, path=record)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""

    @cache
    def store_of(cluster: str) -> PlanInputStore:
        store = document_store(place, cluster, region)
        if store is None:
            raise DocumentError(NO_INPUTS)
        return PlanInputStore(store)

    return store_of


def _with_inputs(
    noun: str, entries: Sequence[_Entry], read: Callable[[_Entry], _Inputs], left_out: Counter[str]
) -> Iterator[tuple[_Entry, _Inputs]]:
    """Yield the entries of which the inputs can be read, with these, and count why the others cannot."""
    with show_progress(f"Replaying {counted(len(entries), noun)} ...") as show:
        for number, entry in enumerate(entries):
            show(f"Replaying {noun} {number + 1} of {len(entries)} ...")
            if not entry.inputs:
                left_out[entry.inputs_lacking or NO_INPUTS] += 1
                continue
            try:
                inputs = read(entry)
            except DocumentError:
                left_out[GONE] += 1
            except UnreadableInputsError as error:
                left_out[str(error)] += 1
            else:
                yield entry, inputs


def _replayed(plans: Sequence[PlanEntry], store_of: StoreOf, seconds: float) -> Replay:
    """Replay the plans one after another."""
    comparisons: list[Comparison] = []
    left_out: Counter[str] = Counter()
    solver = BatchSolver()

    def read(entry: PlanEntry) -> Problem:
        return store_of(entry.cluster).read(entry.inputs)

    for entry, problem in _with_inputs("plan", plans, read, left_out):
        try:
            plan = solver(problem, _until(time.monotonic() + seconds))
        except Exception as error:  # a fault of the engine is what a replay looks for
            comparisons.append(failure(entry, f"{type(error).__name__}: {error}"))
        else:
            comparisons.append(compare(entry, plan))
    return Replay(comparisons, left_out)


def _replayed_disruption(entries: Sequence[DisruptionEntry], store_of: StoreOf, seconds: float) -> DecisionReplay:
    """Replay the decisions about which nodes go, one after another."""
    comparisons: list[DecisionChange] = []
    left_out: Counter[str] = Counter()

    def read(entry: DisruptionEntry) -> DecisionInputs:
        return store_of(entry.cluster).read_decision(entry.inputs)

    for entry, inputs in _with_inputs("decision", entries, read, left_out):
        try:
            decision = decide(inputs.situation, inputs.methods(_until(time.monotonic() + seconds)))
        except Exception as error:  # a fault of the engine is what a replay looks for
            comparisons.append(failed_decision(entry, f"{type(error).__name__}: {error}"))
        else:
            comparisons.append(compare_decisions(entry, decision))
    return DecisionReplay(comparisons, left_out)


def _until(end: float) -> Expired:
    return lambda: time.monotonic() >= end


def _show(result: Replay, decisions: DecisionReplay) -> None:
    console = output_console()
    has_decisions = bool(decisions.comparisons or decisions.left_out)
    sections = [_lines(result)] if result.comparisons or result.left_out or not has_decisions else []
    if has_decisions:
        sections.append(_disruption_lines(decisions))
    for number, section in enumerate(sections):
        for line in ("",) * bool(number) + (*section,):
            console.print(line, markup=False, highlight=False)


def _lines(result: Replay) -> Iterator[str]:
    sentences = [
        f"{change.at:%Y-%m-%d %H:%M:%S} batch {change.batch}: {sentence(change)}" for change in result.changes[:WORST]
    ]
    yield from _section(headline(result), sentences, len(result.changes), "plan", result.left_out)


def _disruption_lines(result: DecisionReplay) -> Iterator[str]:
    sentences = [f"{change.at:%Y-%m-%d %H:%M:%S}: {decision_sentence(change)}" for change in result.changes[:WORST]]
    yield from _section(decision_headline(result), sentences, len(result.changes), "decision", result.left_out)


def _section(
    title: str, sentences: Sequence[str], changes: int, noun: str, left_out: Mapping[str, int]
) -> Iterator[str]:
    yield f"{title}."
    if changes:
        yield ""
        yield f"The worst {WORST} of them:" if changes > WORST else "They are:"
        for text in sentences:
            yield f"  {text}"
    if left_out:
        yield ""
        yield "Not replayed:"
        for why, number in sorted(left_out.items()):
            yield f"  {counted(number, noun)}: {why}"
