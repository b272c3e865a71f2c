"""Short ways to write rules between pods, and to read where a plan puts them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules, PodTerm, SpreadRule
from tenon.kube.selectors import LabelSelector
from tenon.scheduling.model import Plan
from tests.tenon.scheduling.builders import replicas

WEB = {"app": "web"}
DB = {"app": "db"}


def chosen(**texts: str) -> LabelSelector:
    """Pods with these labels."""
    return LabelSelector(tuple((key, "In", (value,)) for key, value in sorted(texts.items())))


def spread(key: str = labels.ZONE, skew: int = 1, selector: LabelSelector | None = None, **more: Any) -> PodRules:
    """One topology spread constraint, over pods of app web."""
    return PodRules(spreads=(SpreadRule(key, skew, selector or chosen(app="web"), **more),))


def near(key: str = labels.ZONE, app: str = "web", **more: Any) -> PodRules:
    """Required pod affinity to an app."""
    return PodRules(affinity=(PodTerm(key, chosen(app=app), **more),))


def away(key: str = labels.ZONE, app: str = "web", **more: Any) -> PodRules:
    """Required pod anti-affinity to an app."""
    return PodRules(anti_affinity=(PodTerm(key, chosen(app=app), **more),))


def web(count: int, rules: PodRules, prefix: str = "web", **more: Any) -> list[Pod]:
    """Replicas of app web."""
    return replicas(count, prefix=prefix, labels=more.pop("labels", WEB), rules=rules, **more)


def domains(plan: Plan, key: str = labels.ZONE, prefix: str = "web") -> Counter[str]:
    """How many of the pods each domain gets on new nodes; a claim that leaves the key open has several names."""
    counts: Counter[str] = Counter()
    for claim in plan.claims:
        count = sum(pod.name.startswith(prefix) for pod in claim.pods)
        if count:
            counts["|".join(claim.requirements.get(key).values)] += count
    return counts


def on_each(plan: Plan, prefix: str = "web") -> list[int]:
    """How many of the pods are on each new node that has some, the most first."""
    counts = (sum(pod.name.startswith(prefix) for pod in claim.pods) for claim in plan.claims)
    return sorted((count for count in counts if count), reverse=True)
