"""Nodes that are leaving and wait for pods that may not be evicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tenon.kube.protection import protecting_annotation
from tenon.node.state import Stage
from tenon.report.advice.base import Advice, Question, cost_text
from tenon.report.advice.budget_texts import budget_action, budget_names, refusal_text
from tenon.report.live import LiveNode, dollars_a_day
from tenon.report.obstacles import HeldPod
from tenon.sentences import counted

BY_FORCE = "`tenon node force-drain NAME` does not wait"


def drains_that_wait(question: Question) -> Iterator[Advice]:
    """Return what nodes wait for that drain: PodDisruptionBudgets, annotations of pods, or both."""
    groups: dict[tuple[bool, tuple[str, ...]], list[tuple[LiveNode, list[HeldPod]]]] = defaultdict(list)
    for live in question.cluster.nodes:
        held_pods = question.judge.held_pods_of(live) if live.row.stage is Stage.DRAINING else []
        if held_pods:
            budgets = tuple(sorted({name for held_pod in held_pods for name in held_pod.budgets}))
            groups[any(held_pod.is_annotated for held_pod in held_pods), budgets].append((live, held_pods))
    for (is_annotated, budgets), waiting in sorted(groups.items()):
        nodes = [live for live, _ in waiting]
        held_pods = [held_pod for _, pods_of_node in waiting for held_pod in pods_of_node]
        count = f"{cost_text(nodes)} {'waits' if len(nodes) == 1 else 'wait'}"
        if is_annotated:
            pods = [held_pod.pod for held_pod in held_pods if held_pod.is_annotated]
            names = " or ".join(sorted({protecting_annotation(pod) for pod in pods}))
            too = f" and for {budget_names(budgets)}" if budgets else ""
            sentence = f"{count} to drain for {counted(len(pods), 'pod')} with {names}{too}"
            action = f"Delete the pods where that is harmless; {BY_FORCE}"
        else:
            sentence = f"{refusal_text(held_pods, budgets)}: {count} for it to drain"
            action = f"{budget_action(budgets)}; {BY_FORCE}"
        yield Advice(
            rule="drain-waits-for-annotation" if is_annotated else "drain-waits-for-budget",
            sentence=sentence,
            action=action,
            nodes=sorted(live.name for live in nodes),
            pods=sorted(held_pod.pod.key for held_pod in held_pods),
            dollars_a_day=dollars_a_day(nodes),
            figures={"pods": len(held_pods), "nodes": len(nodes)},
        )
