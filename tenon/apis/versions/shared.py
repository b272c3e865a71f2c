"""Parts that NodePools and NodeClaims share: requirements, the class that they refer to, kubelet settings."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from pydantic import ValidationError, create_model

from tenon.apis import labels
from tenon.apis.base import ApiModel, kubernetes_name
from tenon.apis.common import SelectorRequirement
from tenon.apis.json_object import JsonObject
from tenon.apis.managed import KIND as NODE_CLASS_KIND
from tenon.apis.versions.parts import Part, Path, Taken, Unconvertible, Values, mapping_of, text_of

ANNOTATIONS: Path = ("metadata", "annotations")


def same(value: Any) -> Any:
    """What both versions say alike."""
    return value


def taken_by(model: type[ApiModel]) -> Taken:
    """Whether a field of the model takes a value, the rules between fields left aside; what is no field takes any."""
    fields = {kubernetes_name(name): (name, info) for name, info in model.model_fields.items()}

    @cache  # most fields are never asked about, and a model takes long to make for the start of a process
    def alone(name: str) -> type[ApiModel]:
        field, info = fields[name]
        model_of = cast("Any", create_model)  # the field's name is known here only
        made: type[ApiModel] = model_of(f"Alone{field}", __base__=ApiModel, **{field: (info.annotation, info)})
        return made

    def takes(name: str, value: Any) -> bool:
        if name not in fields:
            return True
        try:
            alone(name).model_validate({name: value})
        except ValidationError:
            return False
        return True

    return takes


def only_v1(name: str, path: Path, takes: Taken) -> Part:
    """A field that v1beta1 has not."""
    return Part(name, {name: path}, {}, same, lambda _: {}, takes=takes)


_REQUIREMENT_TAKES = taken_by(SelectorRequirement)


def node_parts(place: Path, takes: Taken) -> tuple[Part, ...]:
    """The parts of a node's description at this place."""
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
    """Gte and Lte as the Gt and Lt that mean the same of whole numbers (V1B-17)."""
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
    """The group for the version of the class's API (V1B-05); the reference as it was goes into an annotation."""
    if "nodeClassRef" not in values:
        return values
    given = values["nodeClassRef"]
    if not isinstance(given, dict):
        raise Unconvertible("nodeClassRef is not a mapping")
    group = str(given.get("apiVersion") or "").partition("/")[0] or labels.AWS_GROUP
    found = {"group": group, "kind": given.get("kind") or NODE_CLASS_KIND, "name": given.get("name")}
    return {"nodeClassRef": found, "original": text_of(given)}


def reference_down(values: Values) -> Values:
    """The reference as the annotation has it, when it still says the same; else one that does."""
    if "nodeClassRef" not in values:
        return values
    given = values["nodeClassRef"]
    if not isinstance(given, dict):
        raise Unconvertible("nodeClassRef is not a mapping")
    original = mapping_of(values.get("original"))
    if original is not None and reference_up({"nodeClassRef": original})["nodeClassRef"] == given:
        return {"nodeClassRef": original}
    version = f"{given.get('group') or labels.AWS_GROUP}/v1beta1"
    return {"nodeClassRef": {"apiVersion": version, "kind": given.get("kind"), "name": given.get("name")}}


def kubelet_up(values: Values) -> Values:
    """Kubelet settings as the annotation that stands before those of the class (V1B-04)."""
    return {"annotation": text_of(values["kubelet"])} if "kubelet" in values else values


def kubelet_down(values: Values) -> Values:
    """The annotation's settings; a text that holds none stays where it is."""
    settings = mapping_of(values.get("annotation"))
    return values if settings is None else {"kubelet": settings}
