"""What a cluster has, as a table before the question whether it ends."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.console import output_console
from tenon.messages.teardown import ClusterInstance, Survey
from tenon.money import per_hour
from tenon.sentences import counted
from tenon.teardown import report
from tenon.teardown.rounds import INSTANCE

LISTED = 30
"""How many things of a kind a terminal shows."""


def print_survey(cluster: str, survey: Survey) -> None:
    """Print what would end, what stays, and the price of it all."""
    console = output_console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("kind", "name", "what it is", "$/h"):
        table.add_column(title, justify="right" if title == "$/h" else "left", overflow="fold")
    most = LISTED if console.is_terminal else max(survey.instance_count, survey.template_count, survey.profile_count)
    for instance in survey.instances[:most]:
        price = f"{instance.price:.4f}" if instance.price else "-"
        table.add_row(INSTANCE, instance.id, escape(_about(instance)), price)
    for template in survey.templates[:most]:
        table.add_row(report.TEMPLATE, escape(template.name), "", "")
    for profile in survey.profiles[:most]:
        table.add_row(report.PROFILE, escape(profile.name), f"roles {', '.join(profile.roles)}", "")
    if table.row_count:
        console.print(table)
    _print_totals(console, cluster, survey)


def _about(instance: ClusterInstance) -> str:
    parts = [instance.instance_type, instance.capacity_type, instance.zone]
    return " ".join([*parts, f"NodePool {instance.pool}", instance.claim])


def _print_totals(console: Console, cluster: str, survey: Survey) -> None:
    counts = [
        counted(survey.instance_count, INSTANCE),
        counted(survey.template_count, report.TEMPLATE),
        counted(survey.profile_count, report.PROFILE),
    ]
    unpriced = f", and {counted(survey.unpriced, 'instance')} without a known price" if survey.unpriced else ""
    console.print(
        escape(f"Cluster {cluster} in {survey.region}: {', '.join(counts)}; {per_hour(survey.price)}{unpriced}"),
        highlight=False,
        soft_wrap=True,
    )
    for item in survey.stays:
        console.print(escape(f"stays: {item.kind} {item.name}: {item.why}"), highlight=False, soft_wrap=True)
