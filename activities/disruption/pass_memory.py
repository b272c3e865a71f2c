"""What a pass for moves leaves for the next one: where it goes on, and which nodes could not leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from activities import loggers
from tenon.disruption.decision import Decision, DisruptionBlocked
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.situation import Situation
from tenon.messages.disruption import PassCursor

log = loggers.DISRUPTION


class PassMemory:
    """Remembers passes while the worker leads."""

    def __init__(self) -> None:
        self.cursor: PassCursor | None = None
        """Where the next pass goes on; None until it is known. The workflow keeps it for the next leader."""
        self.why_blocked: Mapping[str, DisruptionBlocked] = {}
        """By NodeClaim, why it could not leave in the last pass that reached it."""
        self._blocked_at: dict[str, datetime] = {}
        """By NodeClaim, when a method last found that it cannot leave."""

    def round_is_over(self) -> bool:
        """Whether the next pass begins a round: the last one did not leave nodes for it."""
        return self.cursor is None or not self.cursor.more

    def added_to(self, situation: Situation) -> Situation:
        """The situation with what passes remember."""
        return replace(situation, cursor=self.cursor or PassCursor(), blocked_at=dict(self._blocked_at))

    def ended_at(self, cursor: PassCursor | None) -> None:
        """Remember where a pass ended; None if consolidation failed, so that the next pass begins there again."""
        self.cursor = cursor or self.cursor or PassCursor()

    def remember_blocked(self, decision: Decision, nodes: Sequence[ManagedNode], now: datetime) -> None:
        """Remember which nodes cannot leave although they should. Each is logged once."""
        claim_names = {node.claim for node in nodes}
        self._blocked_at = {claim: at for claim, at in self._blocked_at.items() if claim in claim_names}
        earlier = {claim: why for claim, why in self.why_blocked.items() if claim in claim_names}
        self.why_blocked = {**(earlier if decision.is_cut else {}), **decision.blocked}
        for claim, why in decision.blocked.items():
            if claim not in self._blocked_at:
                log.info("A node cannot leave although it should", extra={"nodeclaim": claim, "error": str(why)})
            self._blocked_at[claim] = now
