"""Plans for random inputs, judged rule by rule: how many are wrong, how many pods have a place, and at what price.

``rules`` are small inputs over every rule that pods and NodePools can state; ``loads`` are 400 pods of 5 to 40 kinds on
the built-in catalogue of EC2. Each input has a number, and the same number always gives the same input.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.differences import in_words, why
from benchmarks.judges import Judge, oracle, outside
from benchmarks.random_cases import Case, load_case, rules_case
from cli.simulating import builtin
from tests.simulate.running import command

MAKERS = {"rules": rules_case, "loads": load_case}
ORACLE = "oracle"
SHOWN = 40
"""Maximum number of violations that are printed one by one."""


@dataclass(slots=True)
class Result:
    """The results of all cases. Times are CPU seconds."""

    cases: int = 0
    pods: int = 0
    placed: int = 0
    nodes: int = 0
    ratios: list[float] = field(default_factory=list)
    """Price divided by the proven lower bound, of the cases that need new nodes."""
    sizing_ratios: list[float] = field(default_factory=list)
    """The same of the cost by the rules that nodes are sized by, whose bound plays the same game."""
    wrong: dict[str, Counter[str]] = field(default_factory=dict)
    """Violations by judge and rule."""
    wrong_cases: dict[str, list[int]] = field(default_factory=dict)
    why: dict[int, Counter[str]] = field(default_factory=dict)
    """Violations by the reading that explains them, for each case that another judge refuses."""
    lines: list[str] = field(default_factory=list)
    planning: float = 0.0
    judging: float = 0.0


def run(cases: Iterable[Case], judges: dict[str, Judge], folder: Path) -> Result:
    """Plan and judge the cases. A case that the command refuses or crashes on counts as wrong."""
    result = Result()
    manifests, catalogue = folder / "manifests.json", folder / "catalogue.json"
    for case in cases:
        manifests.write_text("\n---\n".join(map(json.dumps, case.manifests)))
        options = ["-f", str(manifests), "-o", "json"]
        if case.catalogue is not None:
            catalogue.write_text(json.dumps(case.catalogue))
            options += ["--catalog", str(catalogue)]
        elif not catalogue.exists():
            catalogue.write_text(json.dumps(builtin.load()))
        began = time.process_time()
        result.cases += 1
        try:
            answer = command(*options)
        except Exception as error:  # a crash must not hide the other cases
            _convict(result, "command", case, [("crash", repr(error))])
            continue
        if answer.status:
            _convict(result, "command", case, [("refused", answer.err)])
            continue
        plan = json.loads(answer.out)
        result.planning += time.process_time() - began
        _count(result, plan)
        began = time.process_time()
        for name, judge in judges.items():
            verdict = judge(case, manifests, catalogue, plan)
            _convict(result, name, case, verdict)
            if verdict and name != ORACLE:
                result.why[case.number] = why(case, plan, verdict)
        result.judging += time.process_time() - began
    return result


def _count(result: Result, plan: dict[str, Any]) -> None:
    totals = plan["totals"]
    result.pods += totals["pods"]
    result.placed += totals["pods"] - totals["unschedulable"]
    result.nodes += totals["nodes"]
    if totals["lowerBoundPricePerHour"]:
        result.ratios.append(totals["pricePerHour"] / totals["lowerBoundPricePerHour"])
    if totals["lowerBoundSizingCostPerHour"]:
        result.sizing_ratios.append(totals["sizingCostPerHour"] / totals["lowerBoundSizingCostPerHour"])


def _convict(result: Result, judge: str, case: Case, verdict: list[tuple[str, str]]) -> None:
    counts = result.wrong.setdefault(judge, Counter())
    if verdict:
        result.wrong_cases.setdefault(judge, []).append(case.number)
        counts.update(rule for rule, _ in verdict)
        if len(result.lines) < SHOWN:
            rule, subject = verdict[0]
            result.lines.append(f"case {case.number}, {judge}: {len(verdict)} violations, the first: {rule}: {subject}")


def as_document(result: Result) -> dict[str, Any]:
    """Format the result as JSON."""
    return {
        "cases": result.cases,
        "pods": result.pods,
        "placed": result.placed,
        "nodes": result.nodes,
        "violations": {judge: dict(sorted(counts.items())) for judge, counts in result.wrong.items()},
        "wrongCases": result.wrong_cases,
        "why": {str(case): dict(sorted(why.items())) for case, why in result.why.items()},
        "priceOverBound": spread_of(result.ratios),
        "sizingCostOverBound": spread_of(result.sizing_ratios),
        "cpuSeconds": {"planning": round(result.planning, 1), "judging": round(result.judging, 1)},
    }


def spread_of(ratios: Sequence[float]) -> dict[str, float]:
    """Return the median, mean, 90th percentile and extremes."""
    if not ratios:
        return {}
    ordered = sorted(ratios)
    figures = {
        "least": ordered[0],
        "median": statistics.median(ordered),
        "mean": statistics.fmean(ordered),
        "p90": ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))],
        "most": ordered[-1],
    }
    return {name: round(value, 3) for name, value in figures.items()}


def as_tables(result: Result, kind: str) -> list[Table]:
    """Format the result as tables."""
    broken = Table(title=f"{result.cases:,} random plans ({kind}): violations by rule")
    broken.add_column("rule")
    for judge in result.wrong:
        broken.add_column(judge, justify="right")
    for rule in sorted({rule for counts in result.wrong.values() for rule in counts}):
        broken.add_row(rule, *(f"{counts[rule]:,}" for counts in result.wrong.values()))
    broken.add_row("any", *(f"{sum(counts.values()):,}" for counts in result.wrong.values()))
    broken.add_row("cases", *(f"{len(result.wrong_cases.get(judge, ())):,}" for judge in result.wrong))
    figures = Table(title="what was planned")
    for column in (
        "pods",
        "placed",
        "nodes",
        "price / bound: median",
        "mean",
        "p90",
        "most",
        "sizing cost / bound: median",
        "most",
        "CPU s planning, judging",
    ):
        figures.add_column(column, justify="right")
    ratios, sizing = spread_of(result.ratios), spread_of(result.sizing_ratios)
    figures.add_row(
        f"{result.pods:,}",
        f"{result.placed:,}",
        f"{result.nodes:,}",
        *(f"{ratios[name]:.3f}" if ratios else "-" for name in ("median", "mean", "p90", "most")),
        *(f"{sizing[name]:.3f}" if sizing else "-" for name in ("median", "most")),
        f"{result.planning:.0f}, {result.judging:.0f}",
    )
    return [broken, figures]


def main() -> int:
    """Run the command. Return 1 if a judge found a violation."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.random_plans", description=__doc__)
    arguments.add_argument("--cases", type=int, default=300, help="how many inputs")
    arguments.add_argument("--first", type=int, default=0, help="the number of the first input")
    arguments.add_argument("--kind", choices=sorted(MAKERS), default="rules", help="what the inputs are like")
    arguments.add_argument("--judge", help="another judge: a command, or a Python file with read_scenario and check")
    arguments.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = arguments.parse_args()
    judges: dict[str, Judge] = {ORACLE: oracle}
    if options.judge:
        judges["judge"] = outside(options.judge)
    cases = (MAKERS[options.kind](number) for number in range(options.first, options.first + options.cases))
    with tempfile.TemporaryDirectory() as folder:
        result = run(cases, judges, Path(folder))
    for line in result.lines:
        print(line, file=sys.stderr)
    if options.output == "json":
        print(json.dumps(as_document(result), indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 140)
        for table in as_tables(result, options.kind):
            console.print(table)
        if result.why:
            console.print(in_words(result.why.values()), highlight=False)
    return 1 if result.wrong_cases else 0


if __name__ == "__main__":
    sys.exit(main())
