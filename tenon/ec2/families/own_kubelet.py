"""Kubelet settings of a NodePool from before v1: as an annotation, they override those of its class (V1B-04).

A NodeClaim copies the annotation from its pool, so that plan and launch agree even if the pool changes in between.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import parse_json_object
from tenon.apis.kubelet import KubeletConfiguration, expressions_in, with_amounts_as_texts
from tenon.apis.validation import check_ec2nodeclass
from tenon.evolve import evolve


def own_kubelet(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotation that a NodeClaim copies from its NodePool."""
    text = annotations.get(labels.V1BETA1_KUBELET)
    return {} if text is None else {labels.V1BETA1_KUBELET: text}


def with_own_kubelet(node_class: EC2NodeClass, annotations: Mapping[str, str]) -> EC2NodeClass:
    """Return the class with the kubelet settings of the NodePool or NodeClaim that has these annotations.

    An annotation that holds no kubelet settings is ignored; `own_kubelet_errors` reports it.
    """
    kubelet = _read(annotations)
    if kubelet is None:
        return node_class
    return evolve(node_class, spec=evolve(node_class.spec, kubelet=kubelet))


def own_kubelet_errors(node_class: EC2NodeClass, annotations: Mapping[str, str]) -> list[str]:
    """Says, in one sentence per fault, why a NodePool's own kubelet settings do not work with its class."""
    if labels.V1BETA1_KUBELET not in annotations:
        return []
    if _read(annotations) is None:
        return [
            f"annotation {labels.V1BETA1_KUBELET} holds no kubelet settings in JSON, or expressions, which an "
            "EC2NodeClass takes: correct it, or remove it"
        ]
    composed = check_ec2nodeclass(with_own_kubelet(node_class, annotations))
    present = check_ec2nodeclass(node_class) if composed else []
    return [f"annotation {labels.V1BETA1_KUBELET}: {fault}" for fault in composed if fault not in present]


def _read(annotations: Mapping[str, str]) -> KubeletConfiguration | None:
    """Return the settings in the annotation; None if there are none or they cannot be read."""
    try:
        raw_kubelet = parse_json_object(annotations.get(labels.V1BETA1_KUBELET))
        if raw_kubelet is None:
            return None
        kubelet = {name: value for name, value in raw_kubelet.items() if name != "containerRuntime"}
        kubelet_configuration = KubeletConfiguration.model_validate(with_amounts_as_texts(kubelet))
        return None if expressions_in(kubelet_configuration.to_dict()) else kubelet_configuration
    except (ValueError, ValidationError):
        return None
