"""What workloads should say about themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tenon.report.advice.base import Advice, Question
from tenon.resources import CPU, MEMORY
from tenon.sentences import counted, first_few

SHOWN = 3


def pods_without_requests(question: Question) -> Iterator[Advice]:
    """Return the pods that request neither CPU nor memory, which plans and kube-scheduler take for nothing."""
    pods = [
        pod
        for live in question.cluster.nodes
        for pod in live.running_pods
        if not (pod.pod.requests.get(CPU) or pod.pod.requests.get(MEMORY) or pod.mirror or pod.daemon)
    ]
    if not pods:
        return
    namespaces = Counter(pod.pod.namespace for pod in pods)
    most = [f"{name} ({count})" for name, count in sorted(namespaces.items(), key=lambda item: (-item[1], item[0]))]
    verb = "requests" if len(pods) == 1 else "request"
    yield Advice(
        rule="pods-without-requests",
        sentence=f"{counted(len(pods), 'pod')} {verb} neither CPU nor memory, so plans take them for nothing: "
        f"{first_few(most, SHOWN)}",
        action="Set resources.requests; a LimitRange can give a namespace defaults",
        pods=sorted(pod.key for pod in pods),
        figures={"pods": len(pods), "namespaces": len(namespaces)},
    )
