"""What a pod says about other pods and about what it would rather have: spread, affinity, preferences.

Records only, so that pods which say the same share one of them; `tenon.scheduling.topology` gives them their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.kube.requirements import Requirements
from tenon.kube.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A term of pod affinity or anti-affinity; without namespaces and their selector, the own one is meant."""

    key: str
    selector: LabelSelector | None
    """None selects no pod."""
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """A topology spread constraint; ``hard`` means DoNotSchedule."""

    key: str
    max_skew: int
    selector: LabelSelector | None
    hard: bool = True
    min_domains: int = 1
    match_label_keys: tuple[str, ...] = ()
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True, slots=True)
class PodRules:
    """Everything of this kind that one pod says; preferences carry their weight."""

    spreads: tuple[SpreadRule, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_nodes: tuple[tuple[int, Requirements], ...] = ()
    preferred_affinity: tuple[tuple[int, PodTerm], ...] = ()
    preferred_anti_affinity: tuple[tuple[int, PodTerm], ...] = ()

    def __bool__(self) -> bool:
        """Whether it says anything."""
        return self is not NO_RULES and self != NO_RULES

    @property
    def terms(self) -> tuple[PodTerm, ...]:
        """All terms of pod affinity and anti-affinity, required ones first."""
        preferred = (*self.preferred_affinity, *self.preferred_anti_affinity)
        return (*self.affinity, *self.anti_affinity, *(term for _, term in preferred))


NO_RULES = PodRules()
