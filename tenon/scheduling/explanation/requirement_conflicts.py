"""Says which of a pod's requirements no node of a NodePool meets, and everything that must change to meet them."""

from __future__ import annotations

from tenon.kube.requirements import EXISTS, Requirement, Requirements
from tenon.scheduling.explanation.label_values_text import beyond_subnets, format_values
from tenon.scheduling.label_values import impossible
from tenon.scheduling.model import OFFERING_KEYS
from tenon.scheduling.template import Template


def conflicts(template: Template, term: Requirements) -> tuple[list[str], Requirements]:
    """Return one sentence per change that the term needs, and the term as it is after these changes."""
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
    """Why no node meets the requirement by itself; empty if one does."""
    alone = Requirements.of(wanted)
    if why := impossible(alone):
        return [why]
    found = [text] if (text := template.requirements.conflict(alone, template.known)) else []
    if beyond := beyond_subnets(wanted, template.pool.zones):
        return [*found, beyond]
    if not found and not template.types_for(template.requirements.with_(alone)):
        found = [f"no available instance type of the pool meets {wanted}{_on_offer(template, wanted.key)}"]
    return found


def _smallest(template: Template, wanted: dict[str, Requirement]) -> list[str]:
    """Labels whose requirements conflict with each other. Without any one of them there is no conflict."""
    needed = sorted(wanted)
    for key in sorted(wanted):
        fewer = [other for other in needed if other != key]
        if not template.types_for(template.requirements.with_(Requirements.of(*(wanted[k] for k in fewer)))):
            needed = fewer
    return needed


def _on_offer(template: Template, key: str) -> str:
    """The values of a label that the pool's types offer, as `format_values` formats them."""
    if key in OFFERING_KEYS:
        offers = template.offers_for(template.requirements)
        values = {value for offer in offers if (value := template.table.offer_value(offer, key))}
    else:
        values = template.table.labels_of(key, template.start.types, Requirement.new(key, EXISTS))
    return format_values(values)
