"""The status of Provisioners, AWSNodeTemplates and Machines: the fields that old tools read, and the conversion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenon.apis.common import Condition, ConditionStatus
from tenon.apis.conditions import READY, clear_condition, get_condition, set_condition
from tenon.apis.json_object import JsonObject
from tenon.apis.nodepool import OVERLAPPING

ACTIVE, CONVERTED = "Active", "Converted"
WAITING, INVALID, REFUSED, NAME_TAKEN = "Waiting", "Invalid", "Refused", "NameTaken"
NOT_TAKEN_OVER = "NotTakenOver"
LEFT_OVER = "LeftOver"
MAX_TEXT = 4000
"""The maximum length of a message in characters, so that an object with a hundred notes stays readable."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of converting an old object."""

    became: str = ""
    """The generated objects, for a sentence; empty if the conversion failed."""
    notes: Sequence[str] = ()
    reason: str = CONVERTED
    """The reason of the condition Converted, one word."""
    problem: str = ""
    """Why the object is not active, as a sentence."""


def provisioner_status(
    body: Mapping[str, Any], outcome: Outcome, pool: Mapping[str, Any] | None, scaled: Iterable[str], now: datetime
) -> JsonObject:
    """Return the status of a Provisioner.

    Args:
        body: the Provisioner.
        outcome: the result of its conversion.
        pool: its NodePool, if it exists.
        scaled: when its NodeClaims were created, as Kubernetes timestamps.
        now: the current time.
    """
    old = body.get("status") or {}
    pool_status = (pool or {}).get("status") or {}
    conditions = _conditions(body, outcome, "NodePool", pool, now)
    overlap = get_condition(_readable(pool_status.get("conditions")), OVERLAPPING)
    conditions = clear_condition(conditions, OVERLAPPING)
    if overlap is not None and outcome.became:
        conditions = [*conditions, overlap]
    last = max([*scaled, str(old.get("lastScaleTime") or "")], default="")
    return {
        "resources": dict(pool_status.get("resources") or {}),
        **({"lastScaleTime": last} if last else {}),
        "conditions": [condition.to_dict() for condition in conditions],
    }


def template_status(
    body: Mapping[str, Any], outcome: Outcome, node_class: Mapping[str, Any] | None, now: datetime
) -> JsonObject:
    """Return the status of an AWSNodeTemplate: the resources that its EC2NodeClass found."""
    class_status = (node_class or {}).get("status") or {}
    return {
        "subnets": [_only(subnet, "id", "zone") for subnet in class_status.get("subnets") or ()],
        "securityGroups": [_only(group, "id", "name") for group in class_status.get("securityGroups") or ()],
        "amis": [
            {"requirements": [], **_only(image, "id", "name", "requirements")}
            for image in class_status.get("amis") or ()
        ],
        "conditions": [
            condition.to_dict() for condition in _conditions(body, outcome, "EC2NodeClass", node_class, now)
        ],
    }


def machine_status(body: Mapping[str, Any], now: datetime) -> JsonObject:
    """Return the status of a Machine: the user must replace nodes of v1alpha5, because Tenon does not adopt them."""
    old = body.get("status") or {}
    conditions = set_condition(
        _readable(old.get("conditions")),
        ACTIVE,
        "False",
        now=now,
        reason=NOT_TAKEN_OVER,
        message=(
            "Tenon does not take over nodes of v1alpha5: drain "
            f"{'Node ' + str(old['nodeName']) if old.get('nodeName') else 'its Node'} and end its instance "
            f"{old.get('providerID') or ''}; docs/migrate.md has the commands".replace(" ;", ";")
        ),
        observed_generation=_generation(body),
    )
    return {"conditions": [condition.to_dict() for condition in conditions]}


def _conditions(
    body: Mapping[str, Any], outcome: Outcome, kind: str, stands_for: Mapping[str, Any] | None, now: datetime
) -> list[Condition]:
    generation = _generation(body)
    converted: ConditionStatus = "True" if outcome.became else "False"
    text = "; ".join([f"it is {outcome.became}", *outcome.notes]) if outcome.became else outcome.problem
    conditions = set_condition(
        _readable((body.get("status") or {}).get("conditions")),
        CONVERTED,
        converted,
        now=now,
        reason=outcome.reason,
        message=_bounded(text),
        observed_generation=generation,
    )
    active, reason, message = _active(outcome, kind, stands_for)
    return set_condition(
        conditions, ACTIVE, active, now=now, reason=reason, message=_bounded(message), observed_generation=generation
    )


def _active(outcome: Outcome, kind: str, stands_for: Mapping[str, Any] | None) -> tuple[ConditionStatus, str, str]:
    """Return the status, reason and message of the condition Active."""
    if not outcome.became or outcome.problem:
        return "False", outcome.reason, outcome.problem
    conditions = _readable(((stands_for or {}).get("status") or {}).get("conditions"))
    ready = get_condition(conditions, READY)
    if ready is None:
        return "Unknown", WAITING, f"its {kind} has not been reconciled yet"
    failed = [
        condition.message
        for condition in conditions
        if condition.status == "False" and condition.type != READY and condition.message
    ]
    return ready.status, ready.reason or READY, "" if ready.status == "True" else "; ".join(failed) or ready.message


def _readable(raw_conditions: Any) -> list[Condition]:
    """Return the valid conditions. An old controller wrote some without a reason or time."""
    conditions = []
    for raw_condition in raw_conditions if isinstance(raw_conditions, list) else ():
        try:
            conditions.append(Condition.model_validate(raw_condition))
        except ValueError:
            continue
    return conditions


def _generation(body: Mapping[str, Any]) -> int | None:
    return (body.get("metadata") or {}).get("generation")


def _only(values: Mapping[str, Any], *names: str) -> JsonObject:
    return {name: values[name] for name in names if values.get(name) is not None}


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 4]} ..."
