"""Kubelet settings of a NodePool of before v1: while its annotation has them, they stand for its class's (V1B-04).

A NodeClaim carries the annotation of its pool, so that plan and launch agree also when the pool changes in between.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import ValidationError

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.kubelet import KubeletConfiguration
from tenon.apis.legacy.conversion import KUBELET_ANNOTATION


def own_kubelet(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotation that a NodeClaim takes over from its NodePool."""
    text = annotations.get(KUBELET_ANNOTATION)
    return {} if text is None else {KUBELET_ANNOTATION: text}


def with_own_kubelet(node_class: EC2NodeClass, annotations: Mapping[str, str]) -> EC2NodeClass:
    """The class as it is for the NodePool or NodeClaim that has these annotations.

    A text that holds no kubelet settings counts for nothing: the class's own are the better guess than none.
    """
    text = annotations.get(KUBELET_ANNOTATION)
    if text is None:
        return node_class
    try:
        given = json.loads(text)
        if not isinstance(given, dict):
            return node_class
        settings = {name: value for name, value in given.items() if name != "containerRuntime"}
        kubelet = KubeletConfiguration.model_validate(settings)
    except (ValueError, ValidationError):
        return node_class
    return node_class.model_copy(update={"spec": node_class.spec.model_copy(update={"kubelet": kubelet})})
