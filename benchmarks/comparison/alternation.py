"""Runs the contenders in turn, so that a machine that changes its pace changes it for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from benchmarks.comparison import report
from benchmarks.comparison.machine import this_machine
from benchmarks.comparison.medians import medians
from benchmarks.comparison.sample import Load, Sample, measure_floor, measure_tenon, measure_upstream

Measure = Callable[[Console, Load, Path | None], Sample]
CONTENDERS: Mapping[str, Measure] = {"floor": measure_floor, "upstream": measure_upstream, "tenon": measure_tenon}


def compare(console: Console, load: Load, runs: int, logs: Path | None) -> dict[str, list[Sample]]:
    """Measure each contender ``runs`` times, in turn. ``logs`` gets a folder for each run."""
    samples: dict[str, list[Sample]] = {name: [] for name in CONTENDERS}
    for number in range(1, runs + 1):
        for name, measure in CONTENDERS.items():
            console.print(f"run {number} of {runs}: {name}", highlight=False)
            sample = measure(console, load, logs / f"{name}-{number}" if logs else None)
            samples[name].append(sample)
            console.print(f"{name}: {sample.seconds:.1f} s, {sample.running} of {load.pods} pods run", highlight=False)
    return samples


def main(load: Load, runs: int, logs: Path | None, output: str) -> None:
    """Compare and print."""
    machine = this_machine()
    result = {name: medians(samples) for name, samples in compare(Console(stderr=True), load, runs, logs).items()}
    if output == "json":
        print(json.dumps(report.as_document(load.pods, machine, result), indent=2))
    else:
        Console().print(report.as_table(load.pods, machine, result))
