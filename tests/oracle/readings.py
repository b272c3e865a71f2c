"""Three rules between pods that can be read in two ways, and that kube-scheduler's source decides.

The oracle follows that source. A judge that knows only what the manifests' documentation says may read them otherwise,
so each can be put the other way, to find out whether that is all that two judges differ in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Reading:
    """What is taken as kube-scheduler takes it; the functions named are in ``pkg/scheduler/framework/plugins``."""

    own_values: bool = True
    """A value of a label that the pod's own node affinity excludes is no domain of its spread: ``calPreFilterState`` of
    ``podtopologyspread/filtering.go`` counts only nodes that ``matchNodeInclusionPolicies`` lets in."""
    all_keys: bool = True
    """A node that lacks the key of one of several constraints counts for none of them: ``calPreFilterState``
    passes over it by ``nodeLabelsMatchSpreadConstraints`` of ``podtopologyspread/common.go``."""
    joint_terms: bool = True
    """Only a pod that all terms of a required pod affinity are about counts for any of them:
    ``updateWithAffinityTerms`` of ``interpodaffinity/filtering.go`` asks ``podMatchesAllAffinityTerms``."""

    def otherwise(self) -> Iterator[tuple[str, Reading]]:
        """Each rule by its name put the other way, alone; then the two of spread together."""
        for path in fields(self):
            yield path.name, Reading(**{path.name: False})
        yield "own_values and all_keys", Reading(own_values=False, all_keys=False)


KUBE_SCHEDULER = Reading()
