"""Checks the expressions in a class's kubelet settings before any node is launched with them (EC-S7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.expressions import ExpressionError
from tenon.apis.kubelet import expressions_in
from tenon.apis.validation import unreadable_expressions
from tenon.ec2.nodeclass.status import PASSED, CheckResult
from tenon.ec2.types.capacity import Item, NodeSettings
from tenon.ec2.types.expressions import evaluate_settings
from tenon.ec2.types.settings import kubelet_map

Described = Callable[[EC2NodeClass], tuple[NodeSettings, Iterable[Item]]]
GATE_IS_OFF = "expressions are read with AWS_FEATURE_GATES=NodeClassCEL=true only: set it, or write plain values"


def expressions_are_off(faults: Mapping[str, str]) -> str:
    """Return the message for a class that has these expressions while their feature gate is off."""
    return f"kubelet.{next(iter(faults))}: {GATE_IS_OFF}"


def check_expressions(node_class: EC2NodeClass, described: Described, *, allowed: bool) -> CheckResult:
    """Return why the class's expressions make it unusable.

    ``described`` is called only if all of them can be parsed.
    """
    expressions_by_field = expressions_in(kubelet_map(node_class))
    if not expressions_by_field or node_class.spec.kubelet is None:
        return PASSED
    if not allowed:
        return CheckResult("KubeletExpressionsDisabled", expressions_are_off(expressions_by_field))
    if unreadable := unreadable_expressions(node_class.spec.kubelet):
        return CheckResult("KubeletExpressionInvalid", "; ".join(str(problem) for problem in unreadable))
    settings, items = described(node_class)
    for item in items:
        try:
            evaluate_settings(item, settings)
        except ExpressionError as error:
            return CheckResult("KubeletExpressionEvaluationFailed", str(error))
    return PASSED
