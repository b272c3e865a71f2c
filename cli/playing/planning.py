"""Plans for a page, in the process that has limits of time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from cli.playing.setup import Setup
from cli.simulating.simulation import InputError, SimulationInput, simulation_of
from tenon.simulation.report import PlanReport, report

MAX_FAULTS = 100
"""How many faults of the manifests a page shows."""
REMEMBERED = 4
"""Of how many setups the plan is kept: the page asks for the plan to compare with each time."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The plan of a setup, or why there is none."""

    report: PlanReport | None = None
    notes: Sequence[str] = ()
    faults: Sequence[str] = ()


@lru_cache(maxsize=REMEMBERED)
def outcome_of(setup: Setup) -> Outcome:
    """Plan as `tenon simulate` does."""
    if not setup.manifests.strip():
        return Outcome(
            faults=["There is no manifest: paste a NodePool and what asks for its nodes, or load an example."]
        )
    question = SimulationInput(
        [], disruption=setup.disruption, texts={"manifests": setup.manifests}, market_changes=setup.changes
    )
    try:
        simulation = simulation_of(question)
    except InputError as error:
        more = len(error.faults) - MAX_FAULTS
        faults = [str(fault) for fault in error.faults[:MAX_FAULTS]]
        return Outcome(faults=[*faults, f"and {more} more"] if more > 0 else faults)
    return Outcome(report(simulation.decision, simulation.document), list(simulation.notes))
