"""The last batches of the provisioner, as its workflow remembers them and as its page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice, zip_longest
from typing import NamedTuple

from tenon.apis.reasons import Reason, camel_case
from tenon.evolve import evolve
from tenon.messages.provisioning import BatchOutcome, PlannedPrice, PlanResult, UnlaunchedClaims
from tenon.money import per_hour
from tenon.sentences import counted, for_temporal_ui, shortened

REMEMBERED = 10
"""How many of the last batches the workflow remembers."""
REMEMBERED_CLAIMS = 100
"""How many NodeClaims of a batch the workflow remembers with their prices."""
REMEMBERED_UNLAUNCHED = 1000
"""How many NodeClaims of a batch the workflow remembers that got no instance. Ten batches must fit into its input."""
NAMED_CLAIMS = 5
"""How many NodeClaims a line names of those that were created, and of those that got no instance."""
MAX_LINE = 250


def batch_line(outcome: BatchOutcome) -> str:
    """Return the line about a batch, in Markdown."""
    pods = "" if _answer_was_lost(outcome) else f", {counted(outcome.pods, 'pod')}"
    return shortened(f"`{outcome.at:%Y-%m-%d %H:%M:%S}`{pods}: {_text(outcome)}", MAX_LINE)


def remembered(outcomes: Sequence[BatchOutcome], plan: PlanResult, batch: int, now: datetime) -> list[BatchOutcome]:
    """Return the last batches with one that was planned now.

    Pods that fit nowhere are planned again every few seconds. So a batch that bought nothing takes the place of the one
    with the same outcome, and of too many lines, those that bought nothing go first. So do those whose NodeClaims EC2
    refused: while it has no capacity, there is one more every minute.
    """
    outcome = BatchOutcome(
        at=now,
        batch=batch,
        pods=plan.pods,
        bought=bool(plan.claims),
        claims=[
            PlannedPrice(name=name, price=price)
            for name, price in islice(zip_longest(plan.claims, plan.claim_prices), REMEMBERED_CLAIMS)
        ],
        claim_count=len(plan.claims),
        price=plan.price,
        placed_on_existing=plan.placed_on_existing,
        unschedulable=plan.unschedulable,
        waiting=sum(wait.pods for wait in plan.waits),
        rejected=plan.refused,
        unreached=plan.unreached,
    )
    same = outcome.pods, _text(outcome)
    earlier = [other for other in outcomes if plan.claims or (other.pods, _text(other)) != same]
    while len(earlier) >= REMEMBERED:
        earlier.remove(next((other for other in earlier if not _bought(other)), earlier[0]))
    return [*earlier, outcome]


def with_unlaunched(outcomes: Iterable[BatchOutcome], groups: Iterable[UnlaunchedClaims]) -> list[BatchOutcome]:
    """Return the batches with those of their NodeClaims that got no instance. What was known already counts once."""
    by_batch: dict[int, list[UnlaunchedClaims]] = {}
    for group in groups:
        by_batch.setdefault(group.batch, []).append(group)
    return [
        evolve(outcome, unlaunched=_merged(outcome.batch, [*outcome.unlaunched, *by_batch[outcome.batch]]))
        if outcome.batch in by_batch
        else outcome
        for outcome in outcomes
    ]


def _merged(batch: int, groups: Iterable[UnlaunchedClaims]) -> list[UnlaunchedClaims]:
    reasons: dict[str, str] = {}
    for group in groups:
        reasons |= dict.fromkeys(group.claims, group.reason)
    reasons = dict(islice(reasons.items(), REMEMBERED_UNLAUNCHED))
    return [
        UnlaunchedClaims(batch=batch, reason=reason, claims=[name for name in reasons if reasons[name] == reason])
        for reason in dict.fromkeys(reasons.values())
    ]


def _text(outcome: BatchOutcome) -> str:
    """What was bought, what got no instance, and what the other pods wait for, in clauses."""
    parts = [*_purchases(outcome), *_unlaunched_texts(outcome)]
    if outcome.placed_on_existing:
        parts.append(f"{counted(outcome.placed_on_existing, 'pod')} on nodes that exist or start")
    if outcome.unschedulable:
        parts.append(f"{counted(outcome.unschedulable, 'pod')} fit nowhere")
    if outcome.waiting:
        parts.append(f"{counted(outcome.waiting, 'pod')} wait for cheaper capacity")
    if outcome.rejected:
        parts.append(f"the API server rejected {counted(outcome.rejected, 'NodeClaim')}")
    if outcome.unreached:
        parts.append(f"{counted(outcome.unreached, 'pod')} left to the next batch")
    return shortened("; ".join(parts) or "nothing to buy", MAX_LINE)


def unlaunched(outcomes: Iterable[BatchOutcome]) -> dict[str, str]:
    """Return the NodeClaims of these batches that got no instance, with the reason, as far as they are remembered."""
    return {name: reason for outcome in outcomes for name, reason in _unlaunched(outcome).items()}


class Created(NamedTuple):
    """The NodeClaims of a batch that EC2 did not refuse."""

    number: int
    price: float | None
    """Dollars an hour as planned; None if the price of some is not known."""


def created(outcome: BatchOutcome) -> Created:
    """Return the NodeClaims of a batch without those that got no instance, as far as they are remembered."""
    prices = {claim.name: claim.price for claim in outcome.claims if claim.price is not None}
    unlaunched = _unlaunched(outcome)
    number = max(0, outcome.claim_count - len(unlaunched))
    if _answer_was_lost(outcome) or not all(name in prices for name in unlaunched):
        return Created(number, None)
    return Created(number, outcome.price - sum(prices[name] for name in unlaunched))


def _purchases(outcome: BatchOutcome) -> list[str]:
    """Name the NodeClaims without those that got no instance, with what they cost."""
    number, price = created(outcome)
    if not number:
        return []
    unlaunched = _unlaunched(outcome)
    shown = [claim.name for claim in outcome.claims if claim.name not in unlaunched][:NAMED_CLAIMS]
    more = f" and {number - len(shown)} more" if number > len(shown) else ""
    text = f"created {', '.join(shown)}{more}" if shown else f"created {counted(number, 'NodeClaim')}"
    if _lacks_some(outcome):
        text = f"created at most {counted(number, 'NodeClaim')}"
    if _answer_was_lost(outcome):
        return [text]
    if price is not None:
        planned = f"planned at {per_hour(price)}"
    else:
        planned = f"planned at {per_hour(outcome.price)} with those that got no instance"
    return [for_temporal_ui(f"{text}, {planned}")]


def _bought(outcome: BatchOutcome) -> bool:
    """Whether some of its NodeClaims may have an instance."""
    return outcome.bought and (not outcome.unlaunched or outcome.claim_count > len(_unlaunched(outcome)))


def _answer_was_lost(outcome: BatchOutcome) -> bool:
    """Whether the plan was made twice, so that only the names of its NodeClaims are known."""
    return bool(outcome.claim_count) and not outcome.pods and not outcome.price


def _unlaunched(outcome: BatchOutcome) -> dict[str, str]:
    """Return the NodeClaims that got no instance, with the reason. They have an order, for what is summed over them."""
    return {name: group.reason for group in outcome.unlaunched for name in group.claims}


def _lacks_some(outcome: BatchOutcome) -> bool:
    """Whether more NodeClaims may have got no instance than are remembered."""
    return REMEMBERED_UNLAUNCHED <= len(_unlaunched(outcome)) < outcome.claim_count


def _unlaunched_texts(outcome: BatchOutcome) -> Iterator[str]:
    least = "at least " if _lacks_some(outcome) else ""
    for group in outcome.unlaunched:
        more = len(group.claims) - NAMED_CLAIMS
        names = ", ".join(group.claims[:NAMED_CLAIMS]) + (f" and {least}{more} more" if more > 0 else "")
        if Reason.of(group.reason) is Reason.INSUFFICIENT_CAPACITY:
            yield f"refused: no capacity for {names}"
        else:
            yield f"no instance for {names}: {camel_case(group.reason)}"
