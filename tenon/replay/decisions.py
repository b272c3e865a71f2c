"""Compares disruption decisions of the record with those that today's engine makes from the same inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from tenon.disruption.decision import Decision
from tenon.kube.timestamps import format_instant
from tenon.money import per_hour
from tenon.provisioning.replay import TOLERANCE, WORST, changes_sentence
from tenon.record.entries import DisruptionEntry
from tenon.replay.decision_entries import claims_of, decision_digest, must_go, saving_of
from tenon.sentences import counted, first_few

_NAMED_NODES = 3


class DecisionVerdict(StrEnum):
    """How today's decision differs. The first that applies counts."""

    SAME = "same"
    FAILED = "failed"
    """Today's engine raises an error."""
    UNFINISHED = "unfinished"
    """Today's engine did not try every node within its time."""
    TAKES_REFUSED = "takes-refused"
    """It removes a node that a rule kept."""
    FEWER_NODES = "fewer-nodes"
    """It leaves more nodes that are drifted, unhealthy, expired or empty, or frees fewer for the same saving."""
    SAVES_LESS = "saves-less"
    SAVES_MORE = "saves-more"
    OTHER_COMMANDS = "other-commands"
    """Other nodes, or other replacements, for the same saving."""


@dataclass(frozen=True, slots=True)
class DecisionFigures:
    """A decision in figures."""

    commands: int = 0
    nodes: int = 0
    saving: float = 0.0
    """Dollars an hour."""


@dataclass(frozen=True, slots=True)
class DecisionChange:
    """A decision of the record, and the one that today's engine makes."""

    at: datetime
    inputs: str
    before: DecisionFigures
    after: DecisionFigures
    verdict: DecisionVerdict
    why: str = ""
    """The error of the engine, or the nodes that a rule kept and that today's engine removes."""

    @property
    def dollars(self) -> float:
        """How many dollars an hour today's decision saves more; 0 if there is none."""
        failed = self.verdict in (DecisionVerdict.FAILED, DecisionVerdict.UNFINISHED)
        return 0.0 if failed else self.after.saving - self.before.saving


@dataclass(frozen=True, slots=True)
class DecisionReplay:
    """What a replay of many decisions says."""

    comparisons: Sequence[DecisionChange] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Why decisions could not be replayed, each reason with their number."""

    @property
    def changes(self) -> list[DecisionChange]:
        """The decisions that change, the worst first."""
        changes = [change for change in self.comparisons if change.verdict is not DecisionVerdict.SAME]
        return sorted(changes, key=lambda change: (_BADNESS.index(change.verdict), change.dollars, change.at))

    @property
    def dollars(self) -> float:
        """How many dollars an hour today's decisions save more in sum."""
        return sum(change.dollars for change in self.comparisons)

    def regressions(self, tolerance: float = TOLERANCE) -> list[DecisionChange]:
        """The decisions that fail, remove what a rule kept, leave nodes that must go, or save less than before."""
        return [
            change
            for change in self.changes
            if change.verdict in _WORSE
            or (change.verdict is DecisionVerdict.SAVES_LESS and -change.dollars > tolerance)
        ]


_WORSE = (
    DecisionVerdict.FAILED,
    DecisionVerdict.UNFINISHED,
    DecisionVerdict.TAKES_REFUSED,
    DecisionVerdict.FEWER_NODES,
)
_BADNESS = (
    *_WORSE,
    DecisionVerdict.SAVES_LESS,
    DecisionVerdict.OTHER_COMMANDS,
    DecisionVerdict.SAVES_MORE,
)


def compare_decisions(entry: DisruptionEntry, decision: Decision) -> DecisionChange:
    """Compare an entry with today's decision for the same inputs."""
    before = DecisionFigures(entry.command_count, entry.node_count, entry.saving)
    commands = decision.commands
    chosen_claims = [claim for command in commands for claim in claims_of(command)]
    after = DecisionFigures(len(commands), len(chosen_claims), saving_of(commands))
    why = ""
    if decision.failed:
        verdict = DecisionVerdict.FAILED
        why = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in decision.failed.items())
    elif decision.is_cut:
        verdict = DecisionVerdict.UNFINISHED
    elif taken_claims := sorted({*chosen_claims} & entry.refused.keys()):
        verdict = DecisionVerdict.TAKES_REFUSED
        why = first_few([f"{claim} ({entry.refused[claim].rstrip('.')})" for claim in taken_claims], _NAMED_NODES)
    elif decision_digest(commands) == entry.decision:
        verdict = DecisionVerdict.SAME
    else:
        verdict = _verdict(before, after, must_go(commands) - entry.must_go_count)
    return DecisionChange(entry.at, entry.inputs, before, after, verdict, why)


def failed_decision(entry: DisruptionEntry, error: str) -> DecisionChange:
    """Return what is said of a decision on which today's engine fails."""
    before = DecisionFigures(entry.command_count, entry.node_count, entry.saving)
    return DecisionChange(entry.at, entry.inputs, before, DecisionFigures(), DecisionVerdict.FAILED, error)


def _verdict(before: DecisionFigures, after: DecisionFigures, more_that_must_go: int) -> DecisionVerdict:
    if more_that_must_go < 0:
        return DecisionVerdict.FEWER_NODES
    if abs(after.saving - before.saving) > TOLERANCE:
        return DecisionVerdict.SAVES_MORE if after.saving > before.saving else DecisionVerdict.SAVES_LESS
    return DecisionVerdict.FEWER_NODES if after.nodes < before.nodes else DecisionVerdict.OTHER_COMMANDS


def decision_sentence(change: DecisionChange) -> str:
    """Say how one decision changes."""
    if change.verdict is DecisionVerdict.FAILED:
        return f"today's engine fails: {change.why}"
    if change.verdict is DecisionVerdict.UNFINISHED:
        return "the engine's time ended before it had tried every node"
    texts = [f"{_figures_text(change.before)} become {_figures_text(change.after)}"]
    if abs(change.dollars) > TOLERANCE:
        texts.append(f"{per_hour(abs(change.dollars))} {'more' if change.dollars > 0 else 'less'} saved")
    if change.verdict is DecisionVerdict.TAKES_REFUSED:
        texts.append(f"it takes what a rule kept: {change.why}")
    return "; ".join(texts)


def _figures_text(figures: DecisionFigures) -> str:
    return f"{counted(figures.commands, 'command')} for {counted(figures.nodes, 'node')}"


def decision_headline(replay: DecisionReplay) -> str:
    """Say in one sentence what changes."""
    number = len(replay.comparisons)
    changes = replay.changes
    if not changes:
        return f"No disruption decision changes: today's engine makes the same {counted(number, 'decision')}"
    return changes_sentence(len(changes), counted(number, "disruption decision"), "commands save", replay.dollars)


def decision_document(replay: DecisionReplay, tolerance: float = TOLERANCE) -> dict[str, Any]:
    """Return the replay as JSON. Names of fields are for scripts: they only gain members."""
    return {
        "decisions": len(replay.comparisons),
        "changed": len(replay.changes),
        "regressions": len(replay.regressions(tolerance)),
        "verdicts": dict(sorted(Counter(change.verdict.value for change in replay.comparisons).items())),
        "savingPerHourBefore": round(sum(change.before.saving for change in replay.comparisons), 6),
        "savingPerHourAfter": round(sum(change.after.saving for change in replay.comparisons), 6),
        "changePerHour": round(replay.dollars, 6),
        "worst": [_change_document(change) for change in replay.changes[:WORST]],
        "leftOut": [{"why": why, "decisions": number} for why, number in sorted(replay.left_out.items())],
    }


def _change_document(change: DecisionChange) -> dict[str, Any]:
    return {
        "at": format_instant(change.at),
        "inputs": change.inputs,
        "verdict": change.verdict.value,
        **({"why": change.why} if change.why else {}),
        "changePerHour": round(change.dollars, 6),
        "before": _figures_document(change.before),
        "after": _figures_document(change.after),
    }


def _figures_document(figures: DecisionFigures) -> dict[str, Any]:
    return {"commands": figures.commands, "nodes": figures.nodes, "savingPerHour": round(figures.saving, 6)}
