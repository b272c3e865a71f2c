"""Say which of a pod's requirements no node of a NodePool meets, all that must change for one to meet them."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.apis import labels
from tenon.kube.requirements import EXISTS, IN, Requirement, Requirements
from tenon.scheduling.label_values import impossible
from tenon.scheduling.template import Template
from tenon.scheduling.type_table import OFFERING_KEYS

_VALUES_SHOWN = 5


def conflicts(template: Template, term: Requirements) -> tuple[list[str], Requirements]:
    """What stands against the term, a sentence for each change that is needed, and the term once these are made."""
    found: list[str] = []
    left = dict(term.items())
    for key in sorted(term):
        if texts := _alone(template, term[key]):
            found += texts
            del left[key]
    while not template.types_for(template.requirements.with_(Requirements.of(*left.values()))):
        needed = _smallest(template, left)
        found.append(f"no available instance type of the pool meets {', '.join(str(left[k]) for k in needed)} at once")
        del left[needed[0]]
    return found, Requirements.of(*left.values())


def _alone(template: Template, wanted: Requirement) -> list[str]:
    """Why no node meets the requirement, were it the only one."""
    alone = Requirements.of(wanted)
    if why := impossible(alone):
        return [why]
    found = [text] if (text := template.requirements.conflict(alone, template.known)) else []
    if beyond := beyond_subnets(wanted, template.pool.zones):
        return [*found, beyond]
    if not found and not template.types_for(template.requirements.with_(alone)):
        found = [f"no available instance type of the pool meets {wanted}{_on_offer(template, wanted.key)}"]
    return found


def beyond_subnets(wanted: Requirement, zones: frozenset[str]) -> str:
    """That the zones which are asked for are in no subnet of the class, whose subnets are in ``zones``; empty if not.

    Without ``zones`` nothing is known of subnets.
    """
    if wanted.key != labels.ZONE or wanted.operator != IN or not zones or any(map(wanted.has, zones)):
        return ""
    named = listed(wanted.values)
    verb = "zones {} are" if len(wanted.values) > 1 else "zone {} is"
    return f"{verb.format(named)} in no subnet of its EC2NodeClass (there is {listed(zones)})"


def _smallest(template: Template, wanted: dict[str, Requirement]) -> list[str]:
    """Labels on which the requirements cannot be met together, none of which can be left out."""
    needed = sorted(wanted)
    for key in sorted(wanted):
        fewer = [other for other in needed if other != key]
        if not template.types_for(template.requirements.with_(Requirements.of(*(wanted[k] for k in fewer)))):
            needed = fewer
    return needed


def _on_offer(template: Template, key: str) -> str:
    """What the types of the pool have of a label."""
    if key in OFFERING_KEYS:
        offers = template.offers_for(template.requirements)
        values = {value for offer in offers if (value := template.table.offer_value(offer, key))}
    else:
        values = template.table.labels_of(key, template.start.types, Requirement.new(key, EXISTS))
    return there_is(values)


def there_is(values: Iterable[str]) -> str:
    """The values that a label has somewhere, in brackets behind what asks for another one."""
    text = listed(values)
    return f" (there is {text})" if text else " (none has that label)"


def listed(values: Iterable[str]) -> str:
    """Some of the values, numbers in their order, and how many others there are."""
    ordered = sorted(values, key=lambda value: (len(value), value) if value.isdecimal() else (0, value))
    more = len(ordered) - _VALUES_SHOWN
    return f"{', '.join(ordered[:_VALUES_SHOWN])}{f' and {more} others' if more > 0 else ''}"
