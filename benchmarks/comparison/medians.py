"""Combines the runs of one contender: the median of every figure."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from benchmarks.comparison.api_requests import Request
from benchmarks.comparison.histories import PerNode
from benchmarks.comparison.sample import AUTOSCALER, Sample
from benchmarks.scale_in import Figures
from benchmarks.usage import Used

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ScaleIn:
    """Medians of the scale-in after the burst."""

    runs: int
    to_goal: list[float]
    """The seconds until the price was near that of a repack and stayed so, of the runs that came so far."""
    still_after: list[float]
    """The seconds until nothing changed any more, of the runs that came so far."""
    nodes: float
    price_ratio: float
    drained: float
    """Pods that were moved."""
    used: dict[str, Used]


@dataclass(frozen=True, slots=True)
class Medians:
    """Medians over the runs."""

    runs: list[float]
    """The seconds of each run."""
    seconds: float
    running: int
    """The fewest pods that ran at the end of a run: the runs with fewer than all pods did not finish."""
    nodes: float
    refused: float
    used: dict[str, Used]
    requests: dict[Request, float]
    price: float | None
    """Dollars an hour."""
    price_ratio: float | None
    """Over a repack of the same pods on the contender's own instance types."""
    per_node: PerNode | None
    scale_in: ScaleIn | None

    @property
    def cpu_seconds(self) -> float:
        """CPU-seconds of everything but the benchmark itself."""
        return all_cpu_seconds(self.used)

    @property
    def worker(self) -> Used:
        """What the autoscaler used."""
        return self.used.get(AUTOSCALER, Used(0.0, 0.0))

    def requests_by_client(self) -> dict[str, float]:
        """Return the number of requests of each client, the largest first."""
        result: dict[str, float] = {}
        for request, count in self.requests.items():
            result[request.client] = result.get(request.client, 0) + count
        return dict(sorted(result.items(), key=lambda item: -item[1]))


def all_cpu_seconds(used: Mapping[str, Used]) -> float:
    """Add up the CPU-seconds of all processes."""
    return round(sum(usage.cpu_seconds for name, usage in used.items() if is_whole(name)), 2)


def is_whole(group: str) -> bool:
    """True unless the group is a part of another one, such as ``worker: io``."""
    return ": " not in group


def medians(samples: Sequence[Sample]) -> Medians:
    """Combine runs. What a run did not see counts as 0."""
    bills = [sample.bill for sample in samples if sample.bill is not None]
    return Medians(
        runs=[round(sample.seconds, 1) for sample in samples],
        seconds=round(statistics.median(sample.seconds for sample in samples), 1),
        running=min(sample.running for sample in samples),
        nodes=statistics.median(sample.nodes for sample in samples),
        refused=statistics.median(sample.refused for sample in samples),
        used=_used([sample.used for sample in samples]),
        requests=_each([sample.requests for sample in samples]),
        price=round(statistics.median(bill.price for bill in bills), 3) if bills else None,
        price_ratio=round(statistics.median(bill.ratio for bill in bills), 4) if bills else None,
        per_node=_per_node([sample.per_node for sample in samples if sample.per_node is not None]),
        scale_in=_scale_in([sample.scale_in for sample in samples if sample.scale_in is not None]),
    )


def _used(runs: Sequence[Mapping[str, Used]]) -> dict[str, Used]:
    cpu = _each([{name: item.cpu_seconds for name, item in run.items()} for run in runs])
    memory = _each([{name: item.peak_megabytes for name, item in run.items()} for run in runs])
    return {name: Used(round(cpu[name], 2), round(memory[name], 1)) for name in cpu}


def _each(runs: Sequence[Mapping[Key, float]]) -> dict[Key, float]:
    keys = dict.fromkeys(key for run in runs for key in run)
    return {key: statistics.median(run.get(key, 0) for run in runs) for key in keys}


def _per_node(runs: Iterable[PerNode]) -> PerNode | None:
    result = [asdict(run) for run in runs]
    if not result:
        return None
    return PerNode(**{path.name: statistics.median(run[path.name] for run in result) for path in fields(PerNode)})


def _scale_in(runs: Sequence[Figures]) -> ScaleIn | None:
    if not runs:
        return None
    return ScaleIn(
        runs=len(runs),
        to_goal=[run.seconds_to_goal for run in runs if run.seconds_to_goal is not None],
        still_after=[run.still_after for run in runs if run.still_after is not None],
        nodes=statistics.median(run.bill.nodes for run in runs),
        price_ratio=round(statistics.median(run.bill.ratio for run in runs), 4),
        drained=statistics.median(run.drained for run in runs),
        used=_used([run.used for run in runs]),
    )


def median_if_all(seconds: Sequence[float], runs: int) -> float | None:
    """Return the median, or None if a run did not come so far."""
    return round(statistics.median(seconds), 1) if seconds and len(seconds) == runs else None


def as_document(medians: Medians) -> dict[str, Any]:
    """Format the medians as JSON."""
    return {
        "seconds": medians.seconds,
        "cpuSeconds": medians.cpu_seconds,
        "nodes": medians.nodes,
        "workerMegabytes": medians.worker.peak_megabytes,
        "workerCpuSeconds": medians.worker.cpu_seconds,
        "runs": medians.runs,
        "running": medians.running,
        "refused": medians.refused,
        "price": medians.price,
        "priceRatio": medians.price_ratio,
        "components": {
            name: {"cpuSeconds": usage.cpu_seconds, "megabytes": usage.peak_megabytes}
            for name, usage in medians.used.items()
        },
        "requests": {
            "all": sum(medians.requests.values()),
            "byClient": medians.requests_by_client(),
            "counts": [
                {**request._asdict(), "count": count}
                for request, count in sorted(medians.requests.items(), key=lambda item: (-item[1], item[0]))
            ],
        },
        "perNode": None if medians.per_node is None else asdict(medians.per_node),
        "scaleIn": None if medians.scale_in is None else _scale_in_document(medians.scale_in),
    }


def _scale_in_document(scale_in: ScaleIn) -> dict[str, Any]:
    return {
        "seconds": median_if_all(scale_in.to_goal, scale_in.runs),
        "stillAfter": median_if_all(scale_in.still_after, scale_in.runs),
        "nodes": scale_in.nodes,
        "priceRatio": scale_in.price_ratio,
        "drained": scale_in.drained,
        "cpuSeconds": all_cpu_seconds(scale_in.used),
        "workerCpuSeconds": scale_in.used.get(AUTOSCALER, Used(0.0, 0.0)).cpu_seconds,
    }
