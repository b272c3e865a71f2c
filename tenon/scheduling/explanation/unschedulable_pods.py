"""Says why a pod has no place, per NodePool, so that the user knows what to change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.apis.restricted import restricted_reason
from tenon.kube.node_affinity import accepts_pool
from tenon.kube.pool_reasons import Clause, NoPlace, Obstacle, ObstacleKind, text_of
from tenon.kube.requirements import EXISTS, Requirement, Requirements, hint
from tenon.kube.taints import Taint
from tenon.scheduling.explanation.capacity_shortage import shortage
from tenon.scheduling.explanation.label_values_text import beyond_subnets, format_values
from tenon.scheduling.explanation.topology_conflicts import single_values
from tenon.scheduling.model import OFFERING_KEYS
from tenon.scheduling.offerings.label_values import impossible
from tenon.scheduling.offerings.limits import Limits
from tenon.scheduling.offerings.template import State, Template
from tenon.scheduling.pods.pod_classes import PodClass

_TERMS_SHOWN = 4
"""How many of a pod's alternatives a reason names."""
_NO_TYPE = Obstacle(ObstacleKind.REQUIREMENTS, "no available instance type meets its requirements")


def explain(pod_class: PodClass, templates: Sequence[tuple[Template, Limits]], rule: str = "") -> NoPlace:
    """Return a clause per NodePool that the pod accepts, in the order in which pools are tried, or one for all.

    ``rule`` is the rule between pods that prevents placement; it is the reason if there is no simpler one.
    """
    if not templates:
        text = "no NodePool is ready to launch nodes, and no existing node has room"
        return NoPlace.of(text, ObstacleKind.NODEPOOL)
    if all(_contradiction(term) for term in pod_class.terms):
        key = _contradiction(pod_class.terms[0])
        return NoPlace.of(
            f"the pod's own requirements on label {key} contradict each other, so no node can ever meet them"
        )
    if all(map(impossible, pod_class.terms)):
        return NoPlace.of(impossible(pod_class.terms[0]))
    undefined = _undefined_everywhere(pod_class, [template for template, _ in templates])
    if undefined:
        known_keys = {key for template, _ in templates for key in (*template.known_labels, *template.requirements)}
        text = (restricted_reason(undefined) or f"no NodePool defines label {undefined}") + hint(undefined, known_keys)
        return NoPlace.of(text, ObstacleKind.REQUIREMENTS)
    accepted_templates = [(t, limits) for t, limits in templates if accepts_pool(pod_class.terms, t.pool.name)]
    if not accepted_templates:
        pool_names = " or ".join(dict.fromkeys(str(term[labels.NODEPOOL]) for term in pod_class.terms))
        return NoPlace.of(f"no NodePool that can launch nodes meets {pool_names}", ObstacleKind.REQUIREMENTS)
    return NoPlace(
        tuple(Clause(t.pool.name, _obstacles(pod_class, t, limits, rule)) for t, limits in accepted_templates)
    )


def _contradiction(term: Requirements) -> str:
    return next((key for key in sorted(term) if term[key].contradicts()), "")


def _undefined_everywhere(pod_class: PodClass, templates: Sequence[Template]) -> str:
    """A label that every term of the pod needs and no pool defines; empty if there is none."""
    if len(templates) < 2:
        return ""
    known_keys = frozenset[str]().union(*(template.known_labels for template in templates))
    needed = [
        {key for key, requirement in term.items() if not requirement.may_be_absent and key not in known_keys}
        for term in pod_class.terms
    ]
    common = set.intersection(*needed)
    missing_keys = sorted(key for key in common if not any(key in t.requirements for t in templates))
    return missing_keys[0] if missing_keys else ""


def _obstacles(pod_class: PodClass, template: Template, limits: Limits, rule: str) -> tuple[Obstacle, ...]:
    """Everything that must change for the pool to take the pod, as far as that is known now."""
    if template.contradiction:
        text = f"its own requirements and labels contradict each other on {template.contradiction}"
        return (Obstacle(ObstacleKind.NODEPOOL, text),)
    taints = [taint for taint in template.pool.taints if pod_class.untolerated((taint,))]
    taints_text = f"its {_named('taint', map(_shown, taints))} not tolerated" if taints else ""
    kept_off = (Obstacle(ObstacleKind.TAINTS, taints_text),) if taints else ()
    if not template.start.types:
        return (*kept_off, *(template.pool.lacking or (_NO_TYPE,)))
    states = template.successors(template.start, pod_class)
    if not states and (daemons := _daemons_to_avoid(pod_class, template)):
        text = f"pod anti-affinity keeps the pod off its nodes, because {daemons} runs there"
        return (*kept_off, Obstacle(ObstacleKind.PODS, text))
    if not states:
        return (*kept_off, *_alternatives(pod_class, template, limits))
    if kept_off:
        return (*kept_off, *_shortage_of_pod(pod_class, template, states, limits))
    if own_rule := single_values(pod_class, template.least):
        obstacle = Obstacle(ObstacleKind.MIN_VALUES, own_rule)
    else:
        obstacle = Obstacle(ObstacleKind.PODS, rule or "no node of it could take the pod")
    return shortage(pod_class, template, states, limits, obstacle) or (obstacle,)


def _daemons_to_avoid(pod_class: PodClass, template: Template) -> str:
    """The DaemonSets that keep the pod off every node of the pool; empty if something else does."""
    if pod_class.daemons is None or not template.successors(template.start, replace(pod_class, daemons=None)):
        return ""
    avoided = pod_class.daemons.avoided
    daemon_names = [daemon.name for daemon, _ in template.start.daemons if daemon.groups & avoided]
    return " or ".join(f"DaemonSet {name}" for name in daemon_names[:_TERMS_SHOWN])


def _alternatives(pod_class: PodClass, template: Template, limits: Limits) -> Sequence[Obstacle]:
    """What prevents each of the terms, and what prevents the pod once these terms are met.

    One of several alternatives must be met, so they are one obstacle.
    """
    alternatives = list(dict.fromkeys(_against(pod_class, template, term, limits) for term in pod_class.terms))
    if len(alternatives) == 1:
        return alternatives[0]
    shown = [text_of(obstacles) for obstacles in alternatives[:_TERMS_SHOWN]]
    hidden_count = len(alternatives) - len(shown)
    hidden_text = f" or {hidden_count} other alternatives fail" if hidden_count else ""
    return [Obstacle(ObstacleKind.REQUIREMENTS, f"{' or '.join(shown)}{hidden_text}")]


def _against(pod_class: PodClass, template: Template, term: Requirements, limits: Limits) -> tuple[Obstacle, ...]:
    texts, met = conflicts(template, term)
    if texts:
        texts[-1] += _by_volumes(pod_class, template)
    obstacles = [Obstacle(ObstacleKind.REQUIREMENTS, text) for text in texts]
    if states := template.successors(template.start, pod_class.narrowed((met,))):
        obstacles += _shortage_of_pod(pod_class, template, states, limits)
    return tuple(obstacles)


def _shortage_of_pod(
    pod_class: PodClass, template: Template, states: Sequence[State], limits: Limits
) -> list[Obstacle]:
    """The shortage, in words that follow those about something else."""
    return [
        replace(obstacle, text=f"the pod {obstacle.text}") if obstacle.kind is ObstacleKind.REQUESTS else obstacle
        for obstacle in shortage(pod_class, template, states, limits)
    ]


def _shown(taint: Taint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _named(noun: str, names: Iterable[str]) -> str:
    """Format 'taint a is' or 'taints a and b are'."""
    listed = list(names)
    return f"{noun} {listed[0]} is" if len(listed) == 1 else f"{noun}s {' and '.join(listed)} are"


def _by_volumes(pod_class: PodClass, template: Template) -> str:
    """A note that volumes cause the conflict, if the pod's own requirements alone would be met."""
    own = [term for term in pod_class.own_terms if not conflicts(template, term)[0]]
    return " (by where its volumes are)" if own else ""


def conflicts(template: Template, term: Requirements) -> tuple[list[str], Requirements]:
    """Return one sentence per change that the term needs, and the term as it is after these changes."""
    sentences: list[str] = []
    remaining_terms = dict(term.items())
    for key in sorted(term):
        if texts := _alone(template, term[key]):
            sentences += texts
            del remaining_terms[key]
    while not template.types_for(template.requirements.with_(Requirements.of(*remaining_terms.values()))):
        needed = _smallest(template, remaining_terms)
        sentences.append(
            f"no available instance type of the pool meets {', '.join(str(remaining_terms[k]) for k in needed)} at once"
        )
        del remaining_terms[needed[0]]
    return sentences, Requirements.of(*remaining_terms.values())


def _alone(template: Template, requirement: Requirement) -> list[str]:
    """Why no node meets the requirement by itself; empty if one does."""
    alone = Requirements.of(requirement)
    if why := impossible(alone):
        return [why]
    sentences = [text] if (text := template.requirements.conflict(alone, template.known_labels)) else []
    if beyond := beyond_subnets(requirement, template.pool.zones):
        return [*sentences, beyond]
    if not sentences and not template.types_for(template.requirements.with_(alone)):
        sentences = [
            f"no available instance type of the pool meets {requirement}{_on_offer(template, requirement.key)}"
        ]
    return sentences


def _smallest(template: Template, requirements: dict[str, Requirement]) -> list[str]:
    """Labels whose requirements conflict with each other. Without any one of them there is no conflict."""
    needed = sorted(requirements)
    for key in sorted(requirements):
        fewer = [other for other in needed if other != key]
        if not template.types_for(template.requirements.with_(Requirements.of(*(requirements[k] for k in fewer)))):
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
