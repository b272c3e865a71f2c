"""Explains why another judge refuses a plan that the oracle accepts: which ambiguous rule they read differently.

A violation is attributed to a reading if the oracle, with only that rule reversed, reports the same rule as broken. A
violation that no reading explains is a real disagreement that needs investigation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from benchmarks.judges import Verdict, catalogue_of
from benchmarks.random_cases import Case
from tests.oracle.inputs import read_inputs
from tests.oracle.judging import between_pods
from tests.oracle.readings import KUBE_SCHEDULER

SAYS = {
    "own_values": "a value that the pod's own node affinity excludes is no domain of its spread",
    "all_keys": "a node without the label of one of several spread constraints counts for none",
    "joint_terms": "one pod must meet all terms of a required pod affinity",
    "own_values and all_keys": "the first two together",
}
"""kube-scheduler's behavior, by the name of the reading."""
OTHER = "other"


def why(case: Case, plan: dict[str, Any], verdict: Verdict) -> Counter[str]:
    """Count a plan's violations by the reading that explains them. Single readings are tried before combinations."""
    inputs = read_inputs(case.manifests, catalogue_of(case))
    counts: Counter[str] = Counter()
    wrong = Counter(rule for rule, _ in verdict)
    for name, reading in KUBE_SCHEDULER.otherwise():
        broken = {finding.rule for finding in between_pods(inputs, plan, reading)} if wrong else set()
        for rule in broken & wrong.keys():
            counts[name] += wrong.pop(rule)
    counts[OTHER] += wrong.total()
    return +counts


def in_words(cases: Iterable[Counter[str]]) -> str:
    """Summarize all refused plans in one line."""
    listed = list(cases)
    unexplained = sum(1 for result in listed if result[OTHER])
    by_reading = Counter(name for result in listed for name in result if name != OTHER)
    parts = ", ".join(f"{by_reading[name]} where {SAYS[name]}" for name in SAYS if by_reading[name])
    return (
        f"{len(listed)} plans convicted, {len(listed) - unexplained} of them by readings that differ from "
        f"kube-scheduler's{f' ({parts})' if parts else ''}, {unexplained} by something other"
    )
