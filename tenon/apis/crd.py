"""CustomResourceDefinitions made from the API models, so that there is one place to change a field.

The API server wants a structural schema: no references, no nullable unions, no titles. Pydantic's JSON schema is turned
into one here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenon.apis import labels
from tenon.apis.base import RULES_KEY, ApiModel
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.nodepool import NodePool

JsonObject = dict[str, Any]

_DROPPED = frozenset({"title", "$defs", "const", "default", "additionalProperties", "propertyNames"})


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`; a wide one is shown with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True)
class Resource:
    """What a CustomResourceDefinition says beside its schema."""

    model: type[ApiModel]
    group: str
    plural: str
    columns: Sequence[Column]
    short_names: Sequence[str] = ()
    scale: JsonObject | None = None

    @property
    def file_name(self) -> str:
        """The name of the manifest's file."""
        return f"{self.group}_{self.plural}.yaml"


def _label(name: str) -> str:
    return ".metadata.labels." + name.replace(".", r"\.")


def _condition(type_: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].status'


_READY = Column("Ready", _condition("Ready"))
_AGE = Column("Age", ".metadata.creationTimestamp", "date")

RESOURCES = (
    Resource(
        NodePool,
        labels.GROUP,
        "nodepools",
        (
            Column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            Column("Nodes", ".status.nodes", "integer"),
            _READY,
            _AGE,
            Column("Weight", ".spec.weight", "integer", wide=True),
            Column("CPU", ".status.resources.cpu", wide=True),
            Column("Memory", ".status.resources.memory", wide=True),
        ),
        scale={"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
    ),
    Resource(
        NodeClaim,
        labels.GROUP,
        "nodeclaims",
        (
            Column("Type", _label(labels.INSTANCE_TYPE)),
            Column("Capacity", _label(labels.CAPACITY_TYPE)),
            Column("Zone", _label(labels.ZONE)),
            Column("Node", ".status.nodeName"),
            _READY,
            _AGE,
            Column("ImageID", ".status.imageID", wide=True),
            Column("ID", ".status.providerID", wide=True),
            Column("NodePool", _label(labels.NODEPOOL), wide=True),
            Column("NodeClass", ".spec.nodeClassRef.name", wide=True),
            Column("Drifted", _condition("Drifted"), wide=True),
        ),
    ),
    Resource(
        EC2NodeClass,
        labels.AWS_GROUP,
        "ec2nodeclasses",
        (_READY, _AGE, Column("Role", ".spec.role", wide=True)),
        short_names=("ec2nc", "ec2ncs"),
    ),
)


def custom_resource_definitions() -> dict[str, JsonObject]:
    """Every CustomResourceDefinition, by the name of its file."""
    return {resource.file_name: _definition(resource) for resource in RESOURCES}


def _definition(resource: Resource) -> JsonObject:
    kind = resource.model.__name__
    subresources: JsonObject = {"status": {}} | ({"scale": resource.scale} if resource.scale else {})
    names: JsonObject = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": resource.plural,
        "singular": kind.lower(),
        "categories": ["karpenter"],
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Cluster",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [_printer_column(column) for column in resource.columns],
                    "subresources": subresources,
                    "schema": {"openAPIV3Schema": _root_schema(resource.model)},
                }
            ],
        },
    }


def _printer_column(column: Column) -> JsonObject:
    described: JsonObject = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return described | ({"priority": 1} if column.wide else {})


def _root_schema(model: type[ApiModel]) -> JsonObject:
    schema = model.model_json_schema(by_alias=True, mode="validation")
    root = structural(schema, schema.get("$defs", {}))
    root["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},  # the API server has its own schema for it
    }
    return root


def structural(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """One JSON schema as a structural one: references put in place, unions with null undone, empty defaults left out.

    Raises:
        ValueError: the schema has a union that a CRD cannot say.
    """
    schema = _resolve(schema, definitions)
    result = {name: value for name, value in schema.items() if name not in _DROPPED}
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if "properties" in schema:
        result["properties"] = {
            name: structural(value, definitions) for name, value in sorted(schema["properties"].items())
        }
    if "items" in schema:
        result["items"] = structural(schema["items"], definitions)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict) and "properties" not in schema:
        result["additionalProperties"] = structural(extra, definitions)
    default = _without_nulls(schema.get("default"))
    if default not in (None, "", [], {}) and default is not False:
        result["default"] = default
    return result


def _resolve(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """The schema with its reference, or its union with null, replaced by what it means; its own words win."""
    schema = dict(schema)
    if "anyOf" in schema and "x-kubernetes-int-or-string" not in schema:
        choices = [choice for choice in schema.pop("anyOf") if choice.get("type") != "null"]
        if len(choices) != 1:
            raise ValueError(f"a CRD cannot say this union: {choices}")
        return _resolve(_merge(choices[0], schema), definitions)
    if "$ref" in schema:
        name = schema.pop("$ref").rpartition("/")[2]
        return _resolve(_merge(definitions[name], schema), definitions)
    return schema


def _merge(base: JsonObject, over: JsonObject) -> JsonObject:
    rules = [*base.get(RULES_KEY, []), *over.get(RULES_KEY, [])]
    return base | over | ({RULES_KEY: rules} if rules else {})


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
