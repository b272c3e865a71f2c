"""Status conditions. A condition's transition time changes only when its status changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from tenon.apis.common import Condition, ConditionStatus

READY = "Ready"
VALIDATION_SUCCEEDED = "ValidationSucceeded"
MAX_MESSAGE = 1000


def get_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of this type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether the condition exists and is True."""
    condition = get_condition(conditions, type_)
    return condition is not None and condition.status == "True"


def transitions(before: Iterable[Condition], after: Iterable[Condition]) -> list[tuple[Condition | None, Condition]]:
    """Return each condition whose status changed or that is new, with the condition as it was."""
    old = {condition.type: condition for condition in before}
    return [
        (old.get(condition.type), condition)
        for condition in after
        if condition.type not in old or old[condition.type].status != condition.status
    ]


def set_condition(
    conditions: Sequence[Condition],
    type_: str,
    status: ConditionStatus,
    *,
    now: datetime,
    reason: str = "",
    message: str = "",
    observed_generation: int | None = None,
) -> list[Condition]:
    """Return a new list with this condition set. The other conditions and the order stay the same.

    If the status changes, the transition time is `now`, truncated to whole seconds as Kubernetes stores it. Otherwise
    the old time stays. An empty reason becomes the condition type, because Kubernetes requires a reason.
    """
    old = get_condition(conditions, type_)
    since = now.replace(microsecond=0) if old is None or old.status != status else old.last_transition_time
    new = Condition(
        type=type_,
        status=status,
        reason=reason or type_,
        message=message,
        last_transition_time=since,
        observed_generation=observed_generation,
    )
    if old is None:
        return [*conditions, new]
    return [new if condition.type == type_ else condition for condition in conditions]


def with_validation(
    before: Sequence[Condition],
    problems: Sequence[str],
    *,
    reason: str,
    consequence: str,
    now: datetime,
    generation: int | None = None,
) -> list[Condition]:
    """Return the conditions of an object of Tenon's own kinds that was validated: ValidationSucceeded and Ready.

    Args:
        before: its current conditions.
        problems: what is wrong with it, in sentences.
        reason: the reason of the condition if something is wrong.
        consequence: what holds until that is corrected, in a sentence.
        now: the time.
        generation: the generation that was validated.
    """
    why = "; ".join(problems)
    conditions = set_condition(
        before,
        VALIDATION_SUCCEEDED,
        "False" if why else "True",
        now=now,
        reason=reason if why else VALIDATION_SUCCEEDED,
        message=f"{why}. {consequence}"[:MAX_MESSAGE] if why else "",
        observed_generation=generation,
    )
    return set_root(conditions, (VALIDATION_SUCCEEDED,), now=now, observed_generation=generation)


def clear_condition(conditions: Sequence[Condition], type_: str) -> list[Condition]:
    """Return a new list without the condition."""
    return [condition for condition in conditions if condition.type != type_]


def with_changes(
    present: Sequence[Condition], before: Sequence[Condition], after: Sequence[Condition]
) -> list[Condition]:
    """Return the present conditions with what changed from ``before`` to ``after``.

    What others have written or removed since ``before`` was read stays so.
    """
    old, new = ({condition.type: condition for condition in conditions} for conditions in (before, after))
    changed = {type_ for type_ in {*old, *new} if old.get(type_) != new.get(type_)}
    result = [condition for condition in present if condition.type not in changed or condition.type in new]
    result = [new[condition.type] if condition.type in changed else condition for condition in result]
    types = {condition.type for condition in result}
    return [*result, *(condition for condition in after if condition.type in changed - types)]


def set_root(
    conditions: Sequence[Condition],
    dependents: Sequence[str],
    *,
    now: datetime,
    observed_generation: int | None = None,
) -> list[Condition]:
    """Return a new list in which Ready summarizes the dependent conditions.

    It is False if any dependent is False. Otherwise it is Unknown if any dependent is Unknown or missing. Otherwise it
    is True.
    """
    states = {type_: get_condition(conditions, type_) for type_ in dependents}
    failed = [type_ for type_, condition in states.items() if condition is not None and condition.status == "False"]
    unknown = [type_ for type_, condition in states.items() if condition is None or condition.status == "Unknown"]
    status: ConditionStatus = "False" if failed else "Unknown" if unknown else "True"
    reason, verb = ("UnhealthyDependents", "is not met") if failed else ("ReconcilingDependents", "is not known yet")
    message = ", ".join(f"{type_} {verb}" for type_ in failed or unknown)
    return set_condition(
        conditions,
        READY,
        status,
        now=now,
        reason=READY if status == "True" else reason,
        message=message,
        observed_generation=observed_generation,
    )
