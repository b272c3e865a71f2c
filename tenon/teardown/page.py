"""The page of a teardown in Temporal's UI: what ends, how far it is, what stays and why."""

from __future__ import annotations

from tenon.messages.teardown import TeardownInput, TeardownReport
from tenon.sentences import bullets, for_temporal_ui, shortened
from tenon.teardown.report import summary

LISTED = 12
"""How many things a page lists."""
LINES = 12
"""How many lines of the timeline a page shows."""
MAX_SENTENCE = 200
ABOUT = """This workflow ends all that Tenon has bought and made for one cluster. Its result is the report.

It needs nothing from you. Request Cancellation stops it after its current step; what has ended stays ended. Start
`tenon teardown` again to go on."""


def first_input(
    cluster: str,
    *,
    by: str = "",
    reason: str = "",
    ticket: str = "",
    dry_run: bool = False,
    tags_only: bool = False,
    drain_seconds: float = 900.0,
) -> TeardownInput:
    """Return the input of a teardown."""
    verb = "Says what would end if" if dry_run else "Ends all that Tenon has bought and made, because"
    return TeardownInput(
        headline=f"{verb} cluster {cluster} is torn down",
        why=reason or ("A dry run" if dry_run else "No reason was given"),
        cluster=cluster,
        by=by,
        reason=reason,
        ticket=ticket,
        dry_run=dry_run,
        tags_only=tags_only,
        drain_seconds=drain_seconds,
    )


def static_summary(teardown_input: TeardownInput) -> str:
    """Return the summary that lists of workflows show."""
    verb = "dry run of the teardown of" if teardown_input.dry_run else "tears down"
    return f"{verb} cluster {teardown_input.cluster}"


def current_details(report: TeardownReport, now_doing: str) -> str:
    """Render the page as Markdown. ``now_doing``: the step that runs; empty at the end."""
    lines = [f"### Cluster {report.cluster}: {summary(report)}", ""]
    if now_doing:
        lines += [f"**Now:** {now_doing}", ""]
    if report.by or report.reason:
        lines += [
            f"Asked by {report.by or 'somebody'}: {report.reason or 'no reason given'} {report.ticket}".strip(),
            "",
        ]
    lines += _section("Skipped", [f"{step}: {why}" for step, why in sorted(report.skipped.items())])
    lines += _section("Left", [f"{item.kind} {item.name}: {item.why}" for item in report.leftovers])
    timeline = [f"{line.at:%Y-%m-%d %H:%M:%S} {line.text}" for line in report.timeline]
    lines += _section("Timeline (UTC)", timeline[-LINES:])
    return for_temporal_ui("\n".join(lines)).strip()


def _section(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    return [f"#### {title}", "", *bullets([shortened(item, MAX_SENTENCE) for item in items], LISTED), ""]
