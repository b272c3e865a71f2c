"""On the PYTHONPATH of a worker: its scheduling engine raises for pods with the label `FAULT`.

No problem is known on which the engine raises. Python imports this before anything else.
"""

from __future__ import annotations

from tenon.provisioning import solving
from tenon.scheduling.column_generation.columns import Columns
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.model import Plan, Problem
from tenon.scheduling.offerings.type_table import TypeTables

FAULT = "tests.tenon.sh/engine-fault"
_solved = solving.solve_with_buffers


def solved(
    problem: Problem, expired: Expired = never, tables: TypeTables | None = None, columns: Columns | None = None
) -> Plan:
    """The engine, with a fault."""
    if any(FAULT in pod.labels for pod in problem.pods):
        raise RuntimeError("a fault for a test")
    return _solved(problem, expired, tables, columns)


solving.solve_with_buffers = solved
