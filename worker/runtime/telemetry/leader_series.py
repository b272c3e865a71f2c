"""Joins the series of Temporal's client about the task queues of leaders.

Each leader serves a task queue of its own, whose name has a random part, and Temporal's SDK cannot leave the label out.
Without this module, each change of the lead would begin some 150 series in Prometheus.
"""

from __future__ import annotations

import re

_QUEUE = re.compile(r'(task_queue="[^"]+-plan)-[^"]+-[0-9a-f]{8}"')
"""A name as `workflows.names.leader_queue` and `worker/runtime/leader/leader.py` make it."""
LEADER = "leader"


def without_terms(text: str) -> str:
    """The metrics with one name, which ends with `LEADER`, for the queues of all leaders.

    Of series that become the same, counters and histograms are added up, and of gauges the largest is taken: that of an
    ended leader stays where it was.
    """
    lines: list[str] = []
    places: dict[str, int] = {}
    kind = ""
    for line in text.splitlines(keepends=True):
        if line.startswith("# TYPE "):
            kind = line.split()[-1]
        joined, count = _QUEUE.subn(rf'\1-{LEADER}"', line)
        series, _, value = joined.rpartition(" ")
        if count and series in places:
            place = places[series]
            values = float(lines[place].rpartition(" ")[2]), float(value)
            joined = f"{series} {max(values) if kind == 'gauge' else sum(values)}\n"
            lines[place] = joined
            continue
        if count:
            places[series] = len(lines)
        lines.append(joined)
    return "".join(lines)
