"""Nodes that consolidation may not empty: their pods may not be evicted, or the nodes themselves are protected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tenon.apis import labels
from tenon.disruption.rules.blockers import PROTECTED
from tenon.kube.protection import protecting_annotation
from tenon.report.advice.base import Advice, Question, cost_text, use_figures, use_text
from tenon.report.advice.budget_texts import budget_action, budget_names, refusal_text
from tenon.report.live import LiveNode, dollars_a_day
from tenon.report.obstacles import HeldPod, Obstacles
from tenon.sentences import counted


def pinned_by_pods(question: Question) -> Iterator[Advice]:
    """Return which pods alone keep nodes from consolidation: by annotation, by PodDisruptionBudgets, or by both."""
    groups: dict[tuple[bool, tuple[str, ...]], list[Obstacles]] = defaultdict(list)
    for obstacles in question.settled:
        held_pods = obstacles.held_pods
        if not held_pods or any(held_pod.pod.protected_for_a_time for held_pod in held_pods):
            continue
        budgets = tuple(sorted({name for held_pod in held_pods for name in held_pod.budgets}))
        is_annotated = any(held_pod.is_annotated for held_pod in held_pods)
        if obstacles.is_kept_by_pods_alone:
            groups[is_annotated, budgets].append(obstacles)
    for (is_annotated, budgets), pinned in sorted(groups.items()):
        nodes = [obstacles.live for obstacles in pinned]
        held_pods = [held_pod for obstacles in pinned for held_pod in obstacles.held_pods]
        if is_annotated:
            yield _of_annotations(nodes, held_pods, budgets)
        else:
            yield _of_budgets(nodes, held_pods, budgets)


def _of_annotations(nodes: Sequence[LiveNode], held_pods: Sequence[HeldPod], budgets: Sequence[str]) -> Advice:
    annotated_pods = [held_pod.pod for held_pod in held_pods if held_pod.is_annotated]
    names = sorted({protecting_annotation(pod) for pod in annotated_pods})
    verb = "pins" if len(annotated_pods) == 1 else "pin"
    together = f", together with {budget_names(budgets)}" if budgets else ""
    action = f"Remove {' and '.join(names)} where a restart is harmless, or give it a duration, such as 4h"
    return Advice(
        rule="pinned-by-annotation" if not budgets else "pinned-by-annotation-and-budget",
        sentence=(
            f"{counted(len(annotated_pods), 'pod')} with {' or '.join(names)} {verb} {cost_text(nodes)}{together}; "
            f"{'the node uses' if len(nodes) == 1 else 'the nodes use'} {use_text(nodes)}"
        ),
        action=f"{action}, and let the PodDisruptionBudget allow an eviction" if budgets else action,
        nodes=sorted(live.name for live in nodes),
        pods=sorted(held_pod.pod.key for held_pod in held_pods),
        dollars_a_day=dollars_a_day(nodes),
        figures={"pods": len(annotated_pods), "nodes": len(nodes), **use_figures(nodes)},
    )


def _of_budgets(nodes: Sequence[LiveNode], held_pods: Sequence[HeldPod], budgets: Sequence[str]) -> Advice:
    return Advice(
        rule="pinned-by-budget",
        sentence=(
            f"{refusal_text(held_pods, budgets)}: consolidation may not empty {cost_text(nodes)}; "
            f"{'it uses' if len(nodes) == 1 else 'they use'} {use_text(nodes)}"
        ),
        action=budget_action(budgets),
        nodes=sorted(live.name for live in nodes),
        pods=sorted(held_pod.pod.key for held_pod in held_pods),
        dollars_a_day=dollars_a_day(nodes),
        figures={"pods": len(held_pods), "nodes": len(nodes), **use_figures(nodes)},
    )


def protected_nodes(question: Question) -> Iterator[Advice]:
    """Return which nodes only an annotation of their own keeps, which somebody may have forgotten."""
    groups: dict[str, list[LiveNode]] = defaultdict(list)
    for obstacles in question.settled:
        if obstacles.names == {PROTECTED} and labels.KEEP_UNTIL not in obstacles.managed.protected_by:
            groups[obstacles.managed.protected_by].append(obstacles.live)
    for annotation, nodes in sorted(groups.items()):
        yield Advice(
            rule="protected-node",
            sentence=(
                f"{cost_text(nodes)} {'stays' if len(nodes) == 1 else 'stay'} because of {annotation}; "
                f"{'it uses' if len(nodes) == 1 else 'they use'} {use_text(nodes)}"
            ),
            action="Remove the annotation, or keep a node for a time: `tenon node keep NAME --for 4h`",
            nodes=sorted(live.name for live in nodes),
            dollars_a_day=dollars_a_day(nodes),
            figures={"nodes": len(nodes), **use_figures(nodes)},
        )
