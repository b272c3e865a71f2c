"""The JSON schema of a model as the structural schema that a CustomResourceDefinition wants.

The API server takes no references, no nullable unions and no titles; pydantic's JSON schema is full of them.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tenon.apis.base import RULES_KEY, ApiModel
from tenon.apis.json_object import JsonObject

_DROPPED = frozenset({"title", "$defs", "const", "default", "additionalProperties", "propertyNames"})


def root_schema(model: type[ApiModel]) -> JsonObject:
    """The schema of a whole object of this model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    root = structural(schema, schema.get("$defs", {}))
    root["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},  # the API server has its own schema for it
        "status": _without_rules(root["properties"]["status"]),
    }
    return root


def _without_rules(schema: Any) -> Any:
    """Status is written by controllers; rules on it would only use up what the API server lets all rules cost."""
    if isinstance(schema, dict):
        return {name: _without_rules(value) for name, value in schema.items() if name != RULES_KEY}
    return schema


def structural(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """One JSON schema as a structural one: references put in place, unions with null undone, empty defaults left out.

    Raises:
        ValueError: the schema has a union that a CRD cannot say.
    """
    schema = _resolve(schema, definitions)
    result = {name: deepcopy(value) for name, value in schema.items() if name not in _DROPPED}  # YAML names shared ones
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
