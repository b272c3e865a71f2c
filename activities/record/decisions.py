"""Records disruption decisions with their inputs, for `tenon replay`, after they are made and without delaying them.

Only a decision that chose a command is kept, or one of a whole search that a rule kept other nodes from than the one
before. Most searches find nothing, and these would be many and equal.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from functools import partial

from activities.record.plan_inputs import DecisionKeeper
from activities.record.writer import RecordWriter, origin_of_activity
from tenon.disruption.decision import Decision
from tenon.disruption.methods.gates import DecisionGates
from tenon.disruption.situation import Situation
from tenon.record.kept_inputs import KeptInputs
from tenon.record.origin import Origin
from tenon.replay.decision_entries import disruption_entry, refused
from tenon.replay.decision_inputs import DecisionInputs

REFUSALS_APART = timedelta(minutes=10)
"""How often a decision is kept only for what it refused."""
UNFINISHED = "the search ended before it had tried every node"


class DecisionRecorder:
    """Keeps decisions and their inputs."""

    def __init__(self, record: RecordWriter, inputs: DecisionKeeper, cluster: str, gates: DecisionGates) -> None:
        """``cluster`` is the cluster's name, and ``gates`` is what the methods depend on."""
        self._record = record
        self._inputs = inputs
        self._cluster = cluster
        self._gates = gates
        self._refused: frozenset[str] = frozenset()
        """The nodes that a rule kept in the last decision that is kept."""
        self._refused_at: datetime | None = None
        self._recording: set[asyncio.Task[None]] = set()
        """Held here because the event loop holds its tasks weakly."""

    def decided(self, situation: Situation, decision: Decision, *, complete: bool = True) -> None:
        """Keep a decision, if it is one to keep, and return at once.

        ``complete``: whether nothing ended it early or failed, so that another engine would decide the same.
        """
        if not decision.commands and not (situation.model is not None and complete and self._is_due(situation.now)):
            return
        origin = origin_of_activity(self._cluster)
        task = asyncio.create_task(self._keep(origin, situation, decision, complete=complete), name="keep decision")
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)

    def _is_due(self, now: datetime) -> bool:
        return self._refused_at is None or now - self._refused_at >= REFUSALS_APART

    async def _keep(self, origin: Origin, situation: Situation, decision: Decision, *, complete: bool) -> None:
        refusals = await asyncio.to_thread(refused, decision, situation)
        if situation.model is not None and complete:
            if not decision.commands and self._refused == refusals.keys():
                return
            self._refused, self._refused_at = frozenset(refusals), situation.now
        kept_inputs = KeptInputs(lacking="the worker ended before they were kept" if complete else UNFINISHED)
        try:
            if complete:
                kept_inputs = await self._inputs.keep_decision(DecisionInputs(situation, self._gates))
        finally:
            self._record.write(partial(disruption_entry, origin, situation.now, decision, refusals, kept_inputs))
