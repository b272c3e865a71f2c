"""The parts that NodePools and NodeClaims share: requirements, nodeClassRef, kubelet settings."""

from __future__ import annotations

from functools import cache
from typing import Any, cast, get_args

from pydantic import ValidationError, create_model

from tenon.apis import labels
from tenon.apis.base import ApiModel, is_open, kubernetes_name
from tenon.apis.common import SelectorRequirement
from tenon.apis.json_object import JsonObject, parse_json_object
from tenon.apis.managed import KIND as NODE_CLASS_KIND
from tenon.apis.versions.parts import Accepts, Part, Path, UnconvertibleError, Values, text_of

ANNOTATIONS: Path = ("metadata", "annotations")


def same(value: Any) -> Any:
    """Both versions have the same values."""
    return value


def taken_by(model: type[ApiModel]) -> Accepts:
    """Return a check whether the API server accepts a value in a field of the model.

    It ignores cross-field rules and unknown fields. A field whose parts the API server stores unchecked accepts every
    object.
    """
    fields = {kubernetes_name(name): (name, info) for name, info in model.model_fields.items()}
    opened = {
        name for name, (_, info) in fields.items() if any(map(is_open, (info.annotation, *get_args(info.annotation))))
    }

    @cache  # built on demand, because most fields are never checked and building all models slows the process start
    def alone(name: str) -> type[ApiModel]:
        field, info = fields[name]
        model_of = cast("Any", create_model)  # the field's name is known only at run time
        field_model: type[ApiModel] = model_of(f"Alone{field}", __base__=ApiModel, **{field: (info.annotation, info)})
        return field_model

    def takes(name: str, value: Any) -> bool:
        if name not in fields or (name in opened and isinstance(value, dict)):
            return True
        try:
            alone(name).model_validate({name: value})
        except ValidationError:
            return False
        return True

    return takes


def only_v1(name: str, path: Path, takes: Accepts) -> Part:
    """A field that v1beta1 does not have."""
    return Part(name, {name: path}, {}, same, lambda _: {}, takes=takes)


_REQUIREMENT_TAKES = taken_by(SelectorRequirement)


def node_parts(place: Path, takes: Accepts) -> tuple[Part, ...]:
    """Return the parts of a node template at this path."""
    reference = {"nodeClassRef": (*place, "nodeClassRef"), "original": (*ANNOTATIONS, labels.V1BETA1_REFERENCE)}
    kubelet = {"annotation": (*ANNOTATIONS, labels.V1BETA1_KUBELET)}
    requirements = {"requirements": (*place, "requirements")}
    return (
        Part(
            "requirements", requirements, requirements, same, requirement_down, by_item=True, takes=_REQUIREMENT_TAKES
        ),
        Part("nodeClassRef", reference, reference, reference_up, reference_down),
        Part("kubelet", kubelet, {**kubelet, "kubelet": (*place, "kubelet")}, kubelet_up, kubelet_down),
        only_v1("terminationGracePeriod", (*place, "terminationGracePeriod"), takes),
    )


def requirement_down(term: JsonObject) -> JsonObject:
    """Replace Gte and Lte with the equivalent Gt and Lt on integers (V1B-17)."""
    operator, values = term.get("operator"), term.get("values")
    if operator not in ("Gte", "Lte"):
        return term
    number = values[0] if isinstance(values, list) and len(values) == 1 else None
    if not isinstance(number, str) or not number.isdecimal():
        return term
    if operator == "Lte":
        return {**term, "operator": "Lt", "values": [str(int(number) + 1)]}
    if int(number) > 0:
        return {**term, "operator": "Gt", "values": [str(int(number) - 1)]}
    return {name: value for name, value in term.items() if name != "values"} | {"operator": "Exists"}


def reference_up(values: Values) -> Values:
    """Replace apiVersion with its group (V1B-05). An annotation keeps the original reference."""
    if "nodeClassRef" not in values:
        return values
    old_reference = values["nodeClassRef"]
    if not isinstance(old_reference, dict):
        raise UnconvertibleError("nodeClassRef is not a mapping")
    group = str(old_reference.get("apiVersion") or "").partition("/")[0] or labels.AWS_GROUP
    reference = {
        "group": group,
        "kind": old_reference.get("kind") or NODE_CLASS_KIND,
        "name": old_reference.get("name"),
    }
    return {"nodeClassRef": reference, "original": text_of(old_reference)}


def reference_down(values: Values) -> Values:
    """Restore the reference from the annotation if it is still equivalent; otherwise build an equivalent one."""
    if "nodeClassRef" not in values:
        return values
    new_reference = values["nodeClassRef"]
    if not isinstance(new_reference, dict):
        raise UnconvertibleError("nodeClassRef is not a mapping")
    original = parse_json_object(values.get("original"))
    if original is not None and reference_up({"nodeClassRef": original})["nodeClassRef"] == new_reference:
        return {"nodeClassRef": original}
    version = f"{new_reference.get('group') or labels.AWS_GROUP}/v1beta1"
    return {
        "nodeClassRef": {"apiVersion": version, "kind": new_reference.get("kind"), "name": new_reference.get("name")}
    }


def kubelet_up(values: Values) -> Values:
    """Move the kubelet settings to an annotation, which replaces the settings of the class (V1B-04)."""
    return {"annotation": text_of(values["kubelet"])} if "kubelet" in values else values


def kubelet_down(values: Values) -> Values:
    """Restore the kubelet settings from the annotation. An annotation that is not a mapping stays."""
    settings = parse_json_object(values.get("annotation"))
    return values if settings is None else {"kubelet": settings}
