"""``tenon replay``: runs today's engine on the kept inputs of past plans, and says which decisions change."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from typing import Annotated, Literal, NoReturn

import typer

from activities.clock import utc_now
from activities.record.documents import DocumentError
from activities.record.plan_inputs import PlanInputStore
from cli.application import create_app
from cli.console import output_console
from cli.context import resolve_if_known
from cli.record_source import STANDARD_INPUT, RecordError, RecordOption, chosen_record, open_record
from cli.record_times import SinceOption, UntilOption, instant_of
from cli.simulating.progress import show_progress
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
from tenon.record.entries import PlanEntry
from tenon.scheduling.deadline import Expired
from tenon.scheduling.model import Problem
from tenon.sentences import counted
from worker.record.plan_inputs import document_store
from worker.settings.record_sinks import FILE, RecordSink, parse_record_sink

app = create_app()

CHANGED, UNUSABLE = 1, 2
"""Exit status: decisions are worse; the record cannot be read."""
NO_INPUTS = "the record has no inputs of the plan: a worker keeps them if RECORD_SINKS has a file or a bucket"
Inputs = Callable[[PlanEntry], Problem]


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
        typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Only plans of this cluster."),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, help="The most plans to replay: the newest ones.")
    ] = 1000,
    plan_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="The time limit of each plan, as in the worker.")
    ] = 60.0,
    tolerance: Annotated[
        float, typer.Option(metavar="DOLLARS", min=0, help="By how much an hour a plan may be dearer.")
    ] = TOLERANCE,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output", help="table or json.")] = "table",
) -> None:
    """Replay past plans with today's engine, and show which decisions change and what that costs.

    The exit status is 1 if a decision is dearer, places fewer pods, or fails, and 2 if the record cannot be read.
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
            plans = _plans(location, cluster_name, began, ended, limit)
        result = _replayed(plans, _inputs_of(location), plan_seconds)
    except RecordError as error:
        _stop(str(error))
    if output == "json":
        print(json.dumps(document(result, tolerance), indent=2))
    else:
        _show(result)
    if result.regressions(tolerance):
        raise typer.Exit(CHANGED)


def _stop(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    raise typer.Exit(UNUSABLE)


def _plans(record: str, cluster: str, began: datetime, ended: datetime | None, limit: int) -> deque[PlanEntry]:
    entries = open_record(record, cluster).entries(began, ended)
    return deque((entry for entry in entries if isinstance(entry, PlanEntry)), maxlen=limit)


def _inputs_of(record: str) -> Inputs:
    """Return what reads the inputs of a plan from the place that belongs to the record."""
    place = parse_record_sink(record) if "://" in record else RecordSink(FILE, path=record)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""

    @cache
    def store_of(cluster: str) -> PlanInputStore | None:
        store = document_store(place, cluster, region)
        return PlanInputStore(store) if store is not None else None

    def read(entry: PlanEntry) -> Problem:
        store = store_of(entry.cluster)
        if store is None:
            raise DocumentError(NO_INPUTS)
        return store.read(entry.inputs)

    return read


def _replayed(plans: deque[PlanEntry], inputs_of: Inputs, seconds: float) -> Replay:
    """Replay the plans one after another."""
    comparisons: list[Comparison] = []
    left_out: Counter[str] = Counter()
    solver = BatchSolver()
    with show_progress(f"Replaying {counted(len(plans), 'plan')} ...") as show:
        for number, entry in enumerate(plans):
            show(f"Replaying plan {number + 1} of {len(plans)} ...")
            if not entry.inputs:
                left_out[entry.inputs_lacking or NO_INPUTS] += 1
                continue
            try:
                problem = inputs_of(entry)
            except DocumentError:
                left_out["the inputs are not in the store any more"] += 1
                continue
            except UnreadableInputsError as error:
                left_out[str(error)] += 1
                continue
            end = time.monotonic() + seconds
            try:
                plan = solver(problem, _until(end))
            except Exception as error:  # a fault of the engine is what a replay looks for
                comparisons.append(failure(entry, f"{type(error).__name__}: {error}"))
            else:
                comparisons.append(compare(entry, plan))
    return Replay(comparisons, left_out)


def _until(end: float) -> Expired:
    return lambda: time.monotonic() >= end


def _show(result: Replay) -> None:
    console = output_console()
    for line in _lines(result):
        console.print(line, markup=False, highlight=False)


def _lines(result: Replay) -> Iterator[str]:
    yield f"{headline(result)}."
    changes = result.changes
    if changes:
        yield ""
        yield f"The worst {WORST} of them:" if len(changes) > WORST else "They are:"
        for change in changes[:WORST]:
            yield f"  {change.at:%Y-%m-%d %H:%M:%S} batch {change.batch}: {sentence(change)}"
    if result.left_out:
        yield ""
        yield "Not replayed:"
        for why, number in sorted(result.left_out.items()):
            yield f"  {counted(number, 'plan')}: {why}"
