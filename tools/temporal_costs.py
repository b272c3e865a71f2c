"""Fills the tables of docs/temporal-costs.md from the recorded histories: a change of a workflow changes them.

What histories do not show is stated here: how long a usual drain and termination take, and how often workflows that
wait are called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.client import WorkflowHistory

from tenon.messages.base import QUIET_POLL_SECONDS, ActivityName
from tools.temporal_actions import BilledAction, actions, heartbeats, recorded, stored_bytes, total
from worker.controllers.garbage_collection.sweeps import quiet_interval
from worker.settings import Settings
from workflows.disruption import MAX_HISTORY
from workflows.nodeclass import REFRESH
from workflows.options import OPTIONS

PAGE = Path("docs/temporal-costs.md")

LIVES = {
    "life-empty": "empty",
    "life-replaced": "replaced by a command, or drained by an operator",
    "life-expired": "expired",
    "life-interrupted": "interrupted, or its NodeClaim deleted",
}
"""The recordings of usual lives, by how they end."""
COMMANDS = {
    "empty-1": "removes empty nodes",
    "underutilized-1": "replaces nodes first, with new pods of a Deployment (`tenon.sh/surge`)",
    "drifted-1": "removes a node before its replacement starts",
    "unhealthy-1": "reboots a node",
}
"""Commands of the recording ``commands``."""
OWN_CALLS = 2
"""What a command costs in the workflow of disruption: the call that decided it, and the start of the child."""
BATCH = 2
"""What a batch of pods costs: the call that waited for it, and its plan."""
WAITS = {ActivityName.DRAIN: 30.0, ActivityName.TERMINATE: 40.0}
"""How many seconds the pods and the instance of a usual life take to end."""
CLASSES = 3
"""The EC2NodeClasses of the quiet cluster."""
DAY = timedelta(days=1)
DOLLARS = 50 / 1_000_000
"""The list price of an action of Temporal Cloud."""
COLUMNS = (
    BilledAction.START,
    BilledAction.ACTIVITY,
    BilledAction.LOCAL,
    BilledAction.TIMER,
    BilledAction.SIGNAL,
    BilledAction.UPDATE,
    BilledAction.ATTRIBUTES,
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one thing costs."""

    name: str
    actions: float
    stored: float
    """In bytes of history."""


def life_heartbeats(runs: Sequence[WorkflowHistory]) -> int:
    """Count the heartbeats of a life whose pods and instance end as usual."""
    called = {event.activity_task_scheduled_event_attributes.activity_type.name for run in runs for event in run.events}
    return sum(
        heartbeats(OPTIONS[name].heartbeat or DAY, seconds) for name, seconds in WAITS.items() if name.value in called
    )


def lives() -> list[Cost]:
    """What the usual lives cost, with their heartbeats."""
    costs = []
    for scenario, name in LIVES.items():
        (runs,) = recorded(scenario).values()
        costs.append(Cost(name, total(runs).total() + life_heartbeats(runs), stored_bytes(runs)))
    return costs


def commands() -> list[Cost]:
    """What disruption commands cost, in their own workflow and in that of disruption."""
    runs = {name.rsplit("/", 1)[-1]: runs for name, runs in recorded("commands").items()}
    return [
        Cost(text, total(runs[name]).total() + OWN_CALLS, stored_bytes(runs[name])) for name, text in COMMANDS.items()
    ]


def quiet_day() -> list[Cost]:
    """What a day costs in a cluster where nothing happens."""
    waits = {name.split("/")[0]: runs[0] for name, runs in recorded("quiet").items()}
    (sweeps,) = recorded("sweeps").values()
    sweep_actions = total(sweeps).total() / len(sweeps)
    swept = DAY / quiet_interval(Settings.model_fields["garbage_collection_interval"].default)
    poll = timedelta(seconds=QUIET_POLL_SECONDS)
    return [
        _repeated("calls that wait for pods", waits["provisioner"], poll),
        _repeated("calls that wait for nodes to disrupt", waits["disruption"], poll),
        Cost("sweeps of garbage collection", swept * sweep_actions, swept * stored_bytes(sweeps) / len(sweeps)),
        _repeated(f"looks at {CLASSES} EC2NodeClasses", waits["nodeclass"], REFRESH, times=CLASSES),
        Cost("idle nodes, however many", 0, 0),
    ]


def more_sweeps() -> float:
    """What the sweeps cost a day that a cluster has more while it changes. A trigger of a Schedule is one action."""
    (sweeps,) = recorded("sweeps").values()
    every: timedelta = Settings.model_fields["garbage_collection_interval"].default
    runs: float = DAY / every - DAY / quiet_interval(every)
    return runs * (total(sweeps).total() / len(sweeps) + 1)


def _repeated(name: str, run: WorkflowHistory, period: timedelta, *, times: int = 1) -> Cost:
    """What a workflow costs a day that repeats the same each ``period``, with its continue-as-new."""
    counts = actions(run.events)
    rounds = counts[BilledAction.ACTIVITY]
    per_round = (counts.total() - counts[BilledAction.START]) / rounds
    events = len(run.events) / rounds
    a_day = times * (DAY / period)
    return Cost(name, a_day * (per_round + events / MAX_HISTORY), a_day * stored_bytes([run]) / rounds)


def life_table() -> str:
    """The table of lives, with their actions by kind."""
    lines = [
        f"| how it ends | {' | '.join(COLUMNS)} | heartbeats | actions | history |",
        "|---|" + "---|" * (len(COLUMNS) + 3),
    ]
    for (scenario, _), cost in zip(LIVES.items(), lives(), strict=True):
        (runs,) = recorded(scenario).values()
        counts = total(runs)
        cells = [*(str(counts[kind]) for kind in COLUMNS), str(life_heartbeats(runs)), f"**{cost.actions:.0f}**"]
        lines.append(f"| {cost.name} | {' | '.join(cells)} | {_kilobytes(cost.stored)} |")
    return "\n".join(lines)


def command_table() -> str:
    """The table of commands."""
    return _table("a command that ...", commands())


def quiet_table() -> str:
    """The table of the quiet cluster-day, with its sum."""
    costs = quiet_day()
    whole = Cost("**together**", sum(cost.actions for cost in costs), sum(cost.stored for cost in costs))
    return _table("a day of a quiet cluster", [*costs, whole])


def fleet_table() -> str:
    """The table of what whole clusters cost."""
    life, command = max(cost.actions for cost in lives()), max(cost.actions for cost in commands())
    quiet = sum(cost.actions for cost in quiet_day())
    lines = ["| cluster | actions a day | actions a month | list price a month |", "|---|---|---|---|"]
    for name, lives_a_day, commands_a_day in (
        ("quiet, of up to 1,000 nodes", 0, 0),
        ("100 nodes; 200 lives and 50 commands a day", 200, 50),
        ("1,000 nodes; 5,000 lives and 3,000 commands a day", 5_000, 3_000),
    ):
        busy = more_sweeps() if lives_a_day else 0.0
        a_day = quiet + busy + lives_a_day * (life + BATCH) + commands_a_day * command
        lines.append(f"| {name} | {a_day:,.0f} | {a_day * 30:,.0f} | {a_day * 30 * DOLLARS:,.2f} USD |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "lives": life_table,
    "commands": command_table,
    "quiet day": quiet_table,
    "clusters": fleet_table,
}
"""The tables of the page, by the name in the comments around them."""


def page_text() -> str:
    """The page with its tables of today. Its prose is written by hand."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        begin, end = f"<!-- table: {name} -->", "<!-- end of table -->"
        pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"{PAGE} must have the comment {begin} once, and {end} after it")
        before, after = pattern.split(text)
        text = f"{before}{begin}\n\n{table()}\n\n{end}{after}"
    return text


def _table(title: str, costs: Sequence[Cost]) -> str:
    lines = [f"| {title} | actions | history |", "|---|---|---|"]
    lines += [f"| {cost.name} | {cost.actions:.0f} | {_kilobytes(cost.stored)} |" for cost in costs]
    return "\n".join(lines)


def _kilobytes(count: float) -> str:
    return f"{count / 1000:,.0f} KB" if count else "0"
