"""The report of a teardown: what the cluster had, what ended and when, what stays and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from tenon.evolve import evolve
from tenon.kube.timestamps import time_text
from tenon.messages.base import TimelineEntry
from tenon.messages.teardown import (
    MAX_LISTED,
    ClusterInstance,
    EndedThing,
    Leftover,
    RemovedThings,
    Survey,
    TeardownInput,
    TeardownReport,
)
from tenon.money import per_hour
from tenon.sentences import counted
from tenon.teardown.rounds import INSTANCE, Rounds, ended_instances, left_ids, left_instances

TEMPLATE, PROFILE, WORKFLOW = "launch template", "instance profile", "workflow"
ALL = "all"
"""The name of what stays if the things of a kind cannot be listed."""
MAX_LINES = 100
"""The most lines of a timeline."""
VOLUME = "volume"
FIND_VOLUMES = "find volumes"
"""The step that is skipped for instances that no list names."""
VOLUME_STAYS = "EC2 does not delete it with its instance: delete it if no other cluster needs its data"

LAST_STEP = (
    "Remove Tenon, for example with `helm uninstall`, then run `tenon handback --cluster {}`. The worker starts some "
    "workflows again as long as it runs, and this ends them."
)


def begin(teardown_input: TeardownInput, now: datetime) -> TeardownReport:
    """Return the report of a teardown that begins."""
    return TeardownReport(
        cluster=teardown_input.cluster,
        by=teardown_input.by,
        reason=teardown_input.reason,
        ticket=teardown_input.ticket,
        started_at=now,
        dry_run=teardown_input.dry_run,
    )


def noted(report: TeardownReport, now: datetime, text: str) -> TeardownReport:
    """Return the report with one more line in its timeline, unless that says what the last one says."""
    if report.timeline and report.timeline[-1].text == text:
        return report
    return evolve(report, timeline=[*report.timeline, TimelineEntry(at=now, text=text)][-MAX_LINES:])


def with_survey(report: TeardownReport, survey: Survey) -> TeardownReport:
    """Return the report with what the cluster had."""
    return evolve(report, region=survey.region, survey=survey)


def with_rounds(report: TeardownReport, rounds: Rounds) -> TeardownReport:
    """Return the report with what became of the instances, and the volumes that they leave."""
    ended = ended_instances(rounds)
    things = [
        EndedThing(kind=INSTANCE, name=name, at=at, detail=description(rounds.instances[name]))
        for name, at in sorted(ended.items())
    ]
    remaining_ids = left_ids(rounds)
    total = max(len(ended), report.survey.instance_count - len(remaining_ids) - rounds.unlisted)
    price = sum(rounds.instances[name].price for name in ended)
    if total > len(ended):
        report = with_skipped(report, FIND_VOLUMES, f"they were looked up for {len(ended)} of {total} ended instances")
        if not rounds.unlisted and remaining_ids <= rounds.instances.keys():
            price = max(price, report.survey.price - sum(rounds.instances[name].price for name in remaining_ids))
    volumes = sorted({volume for name in ended for volume in rounds.instances[name].lasting_volumes})
    leftovers = [
        *left_instances(rounds),
        *(Leftover(kind=VOLUME, name=volume, why=VOLUME_STAYS) for volume in volumes),
    ]
    return evolve(_with(report, things, leftovers, {INSTANCE: total}), price=price)


def with_removed(report: TeardownReport, removed: RemovedThings, now: datetime) -> TeardownReport:
    """Return the report with the launch templates and instance profiles that were removed, and those that stay.

    What the survey saw, and what does not stay, was removed too: perhaps by an attempt whose worker died.
    """
    stays = {(item.kind, item.name) for item in removed.leftovers}
    names = {kind: set(kind_names) for kind, kind_names in removed.removed.items()}
    surveyed = {
        TEMPLATE: [template.name for template in report.survey.templates],
        PROFILE: [profile.name for profile in report.survey.profiles],
    }
    for kind, kind_names in surveyed.items():
        if (kind, ALL) not in stays:
            names[kind] = names.get(kind, set()) | {name for name in kind_names if (kind, name) not in stays}
    things = [EndedThing(kind=kind, name=name, at=now) for kind in sorted(names) for name in sorted(names[kind])]
    survey_counts = {TEMPLATE: report.survey.template_count, PROFILE: report.survey.profile_count}
    totals = {
        kind: count - sum(item.kind == kind for item in removed.leftovers)
        for kind, count in survey_counts.items()
        if (kind, ALL) not in stays and len(removed.leftovers) < MAX_LISTED
    }
    return _with(report, things, removed.leftovers, totals)


def with_released(report: TeardownReport, released: RemovedThings, now: datetime) -> TeardownReport:
    """Return the report with the objects in Kubernetes that lost Tenon's finalizers, and those that stay."""
    names = [(kind, name) for kind, kind_names in sorted(released.removed.items()) for name in sorted(kind_names)]
    return _with(report, [EndedThing(kind=kind, name=name, at=now) for kind, name in names], released.leftovers)


def with_skipped(report: TeardownReport, step: str, why: str) -> TeardownReport:
    """Return the report with a step that was skipped."""
    return evolve(report, skipped={**report.skipped, step: why})


def without_skipped(report: TeardownReport, step: str) -> TeardownReport:
    """Return the report in which a step is not skipped, because it was done later."""
    return evolve(report, skipped={name: why for name, why in report.skipped.items() if name != step})


def with_left(report: TeardownReport, leftovers: Iterable[Leftover]) -> TeardownReport:
    """Return the report with more that stays."""
    return _with(report, [], leftovers)


def with_workflows(report: TeardownReport, count: int) -> TeardownReport:
    """Return the report with so many more workflows that were ended."""
    return evolve(report, counts={**report.counts, WORKFLOW: report.counts.get(WORKFLOW, 0) + count})


def finished(report: TeardownReport, now: datetime) -> TeardownReport:
    """Return the report of a teardown that has ended. What a survey found not to be the cluster's stays as well."""
    keys = {(item.kind, item.name) for item in report.leftovers}
    stays = [item for item in report.survey.stays if (item.kind, item.name) not in keys]
    return evolve(report, ended_at=now, leftovers=[*report.leftovers, *stays][:MAX_LISTED])


def description(instance: ClusterInstance) -> str:
    """Say what an instance is: its type, capacity type, zone, NodePool and price."""
    parts = [instance.instance_type, instance.capacity_type, instance.zone]
    if instance.pool:
        parts.append(f"NodePool {instance.pool}")
    if instance.price:
        parts.append(per_hour(instance.price))
    return " ".join(part for part in parts if part)


def summary(report: TeardownReport) -> str:
    """Say in one sentence what ended, or what would end."""
    if report.ended_at is None or report.dry_run:
        survey = report.survey
        counts = [
            counted(survey.instance_count, INSTANCE),
            counted(survey.template_count, TEMPLATE),
            counted(survey.profile_count, PROFILE),
        ]
        verb = "would end" if report.dry_run else "ends"
        return f"{verb} {', '.join(counts)}; {per_hour(survey.price)}"
    counts = [counted(number, kind) for kind, number in sorted(report.counts.items()) if number]
    ended = f"ended {', '.join(counts)}" if counts else "there was nothing to end"
    saved = f"; {per_hour(report.price)} less" if report.price else ""
    rest = f"; left {counted(len(report.leftovers), 'thing')}" if report.leftovers else "; nothing is left"
    return ended + saved + rest


def markdown(report: TeardownReport, *, worker_runs: bool) -> str:
    """Render the report for people, as a file or a page.

    ``worker_runs``: whether a worker of the cluster carried it out. It starts some workflows again until it is removed.
    """
    actor = f" by {report.by}" if report.by else ""
    reason = f" Reason: {report.reason}." if report.reason else ""
    ticket = f" Ticket: {report.ticket}." if report.ticket else ""
    ended_at = f", ended {time_text(report.ended_at)}" if report.ended_at else ""
    sentence = summary(report)
    lines = [
        f"# Teardown of cluster {report.cluster}" + (f" in {report.region}" if report.region else ""),
        "",
        f"Started {time_text(report.started_at)}{actor}{ended_at}.{reason}{ticket}",
        "",
        f"{sentence[:1].upper()}{sentence[1:]}.",
        *_section("Skipped", (f"{step}: {why}" for step, why in sorted(report.skipped.items()))),
        *_section("Left", (f"{item.kind} {item.name}: {item.why}" for item in report.leftovers)),
        *_section("Last step", [LAST_STEP.format(report.cluster)] if worker_runs and not report.dry_run else []),
        *_section("Ended", (_ended_line(item) for item in report.ended)),
        *_section("Timeline (UTC)", (f"{line.at:%Y-%m-%d %H:%M:%S} {line.text}" for line in report.timeline)),
    ]
    return "\n".join(lines) + "\n"


def _ended_line(item: EndedThing) -> str:
    detail = f", {item.detail}" if item.detail else ""
    return f"{item.kind} {item.name}{detail}, at {time_text(item.at)}"


def _section(title: str, lines: Iterable[str]) -> list[str]:
    items = [f"- {line}" for line in lines]
    return ["", f"## {title}", "", *items] if items else []


def _with(
    report: TeardownReport,
    things: list[EndedThing],
    leftovers: Iterable[Leftover],
    totals: Mapping[str, int] | None = None,
) -> TeardownReport:
    """``totals``: how many of a kind ended, where ``things`` may not name all of them."""
    listed_counts = Counter(item.kind for item in things)
    ended = {**listed_counts, **{kind: max(listed_counts[kind], total) for kind, total in (totals or {}).items()}}
    counts = dict(report.counts)
    for kind, number in ended.items():
        if number:
            counts[kind] = counts.get(kind, 0) + number
    return evolve(
        report,
        ended=[*report.ended, *things][:MAX_LISTED],
        counts=counts,
        leftovers=[*report.leftovers, *leftovers][:MAX_LISTED],
    )
