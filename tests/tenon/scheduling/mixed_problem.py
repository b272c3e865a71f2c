"""A problem of pods with different needs."""

from __future__ import annotations

from dataclasses import replace

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules, PodTerm, SpreadRule
from tenon.kube.selectors import LabelSelector
from tenon.scheduling.model import Problem
from tests.tenon.scheduling.builders import node, pod, pool, problem

APART = PodRules(anti_affinity=(PodTerm(labels.HOSTNAME, LabelSelector()),))
EVEN = PodRules(spreads=(SpreadRule(labels.ZONE, 1, LabelSelector()),))


def mixed() -> Problem:
    """Plain pods, pods that look at others, and pods that fit nowhere; room on a node that is there."""
    pods: list[Pod] = [pod(f"plain-{n}", f"{100 + n}m") for n in range(20)]
    pods += [replace(pod(f"apart-{n}", f"{200 + n}m"), rules=APART) for n in range(5)]
    pods += [replace(pod(f"even-{n}", f"{300 + n}m"), rules=EVEN) for n in range(5)]
    pods += [pod(f"huge-{n}", f"{5000 + n}") for n in range(5)]
    return problem(pods, pool(), nodes=[node("n1", cpu="1")])
