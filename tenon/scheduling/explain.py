"""Say why a pod found no place, NodePool by NodePool, so that a person knows what to change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenon.apis.restricted import restricted_reason
from tenon.scheduling.limits import Limits
from tenon.scheduling.model import Taint
from tenon.scheduling.pod_classes import PodClass
from tenon.scheduling.requirements import EXISTS, Requirement, Requirements, hint
from tenon.scheduling.shortage import shortage
from tenon.scheduling.template import Template
from tenon.scheduling.type_table import OFFERING_KEYS

_TERMS_SHOWN = 4
"""Alternatives of one pod that a reason tells of."""
_VALUES_SHOWN = 5


def explain(pod_class: PodClass, templates: Sequence[tuple[Template, Limits]], obstacle: str = "") -> str:
    """One sentence for each NodePool, in the order in which they are tried; one for all where all say the same.

    ``obstacle`` is the rule between pods that stands in the way wherever nothing simpler does.
    """
    if not templates:
        return "no NodePool is ready to launch nodes, and no existing node has room"
    if all(_contradiction(term) for term in pod_class.terms):
        key = _contradiction(pod_class.terms[0])
        return f"the pod's own requirements on label {key} contradict each other, so no node can ever meet them"
    undefined = _undefined_everywhere(pod_class, [template for template, _ in templates])
    if undefined:
        known = {key for template, _ in templates for key in (*template.known, *template.requirements)}
        return (restricted_reason(undefined) or f"no NodePool defines label {undefined}") + hint(undefined, known)
    return "; ".join(f"NodePool {t.pool.name}: {_reason(pod_class, t, limits, obstacle)}" for t, limits in templates)


def _contradiction(term: Requirements) -> str:
    return next((key for key in sorted(term) if term[key].contradicts()), "")


def _undefined_everywhere(pod_class: PodClass, templates: Sequence[Template]) -> str:
    """A label that every term of the pod needs and no pool defines."""
    if len(templates) < 2:
        return ""
    known = frozenset[str]().union(*(template.known for template in templates))
    needed = [
        {key for key, wanted in term.items() if not wanted.may_be_absent and key not in known}
        for term in pod_class.terms
    ]
    common = set.intersection(*needed)
    missing = sorted(key for key in common if not any(key in t.requirements for t in templates))
    return missing[0] if missing else ""


def _reason(pod_class: PodClass, template: Template, limits: Limits, obstacle: str) -> str:
    kept_off = [taint for taint in template.pool.taints if pod_class.untolerated((taint,))]
    if kept_off:
        return f"its {_named('taint', map(_shown, kept_off))} not tolerated"
    if template.contradiction:
        return f"its own requirements and labels contradict each other on {template.contradiction}"
    if not template.start.types:
        return "no available instance type meets its requirements"
    states = template.successors(template.start, pod_class)
    if states:
        return shortage(pod_class, template, states, limits, obstacle)
    conflicts = dict.fromkeys(text for term in pod_class.terms if (text := _term_conflict(template, term)))
    shown = list(conflicts)[:_TERMS_SHOWN]
    more = f" or {len(conflicts) - len(shown)} other alternatives fail" if len(conflicts) > len(shown) else ""
    return f"{' or '.join(shown)}{more}{_by_volumes(pod_class, template)}"


def _shown(taint: Taint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _named(what: str, names: Iterable[str]) -> str:
    """'taint a is', or 'taints a and b are'."""
    listed = list(names)
    return f"{what} {listed[0]} is" if len(listed) == 1 else f"{what}s {' and '.join(listed)} are"


def _by_volumes(pod_class: PodClass, template: Template) -> str:
    """A word on the volumes where the pod's own requirements alone would be met."""
    own = [term for term in pod_class.own_terms if not _term_conflict(template, term)]
    return " (by where its volumes are)" if own else ""


def _term_conflict(template: Template, term: Requirements) -> str:
    """Why no node of the template meets the term; empty when one does."""
    conflict = template.requirements.conflict(term, template.known)
    if conflict is not None:
        return conflict
    if template.types_for(template.requirements.with_(term)):
        return ""
    needed = sorted(term)
    for key in sorted(term):  # what is left when nothing more can be left out is the smallest thing to change
        fewer = [other for other in needed if other != key]
        if not template.types_for(template.requirements.with_(Requirements.of(*(term[k] for k in fewer)))):
            needed = fewer
    text = f"no available instance type of the pool meets {', '.join(str(term[key]) for key in needed)}"
    return f"{text}{_on_offer(template, needed[0])}" if len(needed) == 1 else f"{text} at once"


def _on_offer(template: Template, key: str) -> str:
    """What the types of the pool have of a label."""
    if key in OFFERING_KEYS:
        offers = template.offers_for(template.requirements)
        values = {value for offer in offers if (value := template.table.offer_value(offer, key))}
    else:
        values = template.table.labels_of(key, template.start.types, Requirement.new(key, EXISTS))
    if not values:
        return " (none has that label)"
    ordered = sorted(values, key=lambda value: (len(value), value) if value.isdecimal() else (0, value))
    more = len(ordered) - _VALUES_SHOWN
    return f" (there is {', '.join(ordered[:_VALUES_SHOWN])}{f' and {more} others' if more > 0 else ''})"
