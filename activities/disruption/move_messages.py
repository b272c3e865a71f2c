"""The messages of commands that move pods, with the NodeClaims of their replacements as the workflow creates them."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from activities.disruption.supply import Supply
from tenon.apis.reasons import camel_case
from tenon.apis.shortage_price import price_factor, shortage_annotation
from tenon.disruption.commands.command_messages import arrivals_of, new_command_id, pods_sent, to_message
from tenon.disruption.decision import Command
from tenon.disruption.situation import Situation
from tenon.ec2.refusals.unavailable import next_attempt_of
from tenon.messages.disruption import DisruptionCommand, Replacement
from tenon.messages.explanation import Explanation
from tenon.node.leave_text import command_text
from tenon.provisioning.claims import name_after, replacement_claim_body
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import PlannedClaim


class MoveMessages:
    """Makes the messages of commands that were decided in one situation. It may run in a thread."""

    def __init__(self, situation: Situation, supply: Supply, now: datetime) -> None:
        """``supply``: what the situation's model was made from. ``now``: the time of the decision."""
        assert situation.model is not None  # methods that move pods need it
        self._model = situation.model
        self._supply = supply
        self._now = now
        attempted_at = partial(next_attempt_of, supply.next_attempts)
        self._winners = TypeChoiceExplainer(situation.model.problem, supply.usual.types_by_pool(), attempted_at)

    def of(self, command: Command, *, ident: str = "") -> DisruptionCommand:
        """The command's message. ``ident``: the ID of the command that it takes the place of."""
        ident = ident or new_command_id(command, self._now)
        replacements = [
            self._replacement(command, number, planned, ident) for number, planned in enumerate(command.replacements)
        ]
        names = [replacement.name for replacement in replacements]
        return to_message(
            command,
            ident=ident,
            replacements=replacements,
            details=self._model.details,
            arrivals=arrivals_of(command, self._model, names, self._now),
            arriving_workloads=pods_sent(command, self._model, names),
        )

    def _replacement(self, command: Command, number: int, planned: PlannedClaim, ident: str) -> Replacement:
        name = name_after(planned.pool, f"{ident}/{number}")
        pool, overlaid = self._supply.of(command, planned)
        occasion = f"{command_text(ident)} ({camel_case(command.reason)})"
        why = Explanation(occasion=occasion, others=command.explanation)
        body = replacement_claim_body(planned, pool, name, ident, command.reason, why)
        factor, usual_price = price_factor(pool.metadata.annotations), self._winners.usual_price(planned)
        body["metadata"]["annotations"] |= overlaid.overlay_annotations(planned.pool, planned.instance_types)
        body["metadata"]["annotations"] |= shortage_annotation(planned.price, usual_price, factor)
        return Replacement(
            name=name,
            pool=planned.pool,
            body=body,
            instance_type=planned.offering.instance_type,
            price=round(planned.price, 6),
        )
