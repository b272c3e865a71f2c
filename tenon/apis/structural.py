"""Converts the JSON schema of a model to the structural schema that a CustomResourceDefinition requires.

The API server does not accept references, nullable unions or titles, and pydantic generates all of them.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tenon.apis.base import OPEN_KEY, RULES_KEY, ApiModel
from tenon.apis.json_object import JsonObject

PRESERVE_KEY = "x-kubernetes-preserve-unknown-fields"
_DROPPED = frozenset({"title", "$defs", "const", "default", "additionalProperties", "propertyNames"})


def root_schema(model: type[ApiModel]) -> JsonObject:
    """Return the schema of a whole object of this model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    root = structural(schema, schema.get("$defs", {}))
    root["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},  # the API server uses its own schema
        "status": _without_rules(root["properties"]["status"]),
    }
    return root


def stored_schema(model: type[ApiModel]) -> JsonObject:
    """Return the part of the schema that the API server enforces."""
    stored: JsonObject = _opened(root_schema(model))
    return stored


def _opened(schema: Any) -> Any:
    """Remove the types and the rules of open objects. The names of their fields stay, for `kubectl explain`."""
    if isinstance(schema, list):
        return [_opened(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get(OPEN_KEY):
        fields = {
            name: {"description": field.get("description", ""), PRESERVE_KEY: True}
            for name, field in schema["properties"].items()
        }
        return {"description": schema["description"], "type": "object", PRESERVE_KEY: True, "properties": fields}
    return {name: _opened(value) for name, value in schema.items()}


def _without_rules(schema: Any) -> Any:
    """Remove the rules: only controllers write status, and rules there would use up the API server's cost budget."""
    if isinstance(schema, dict):
        return {name: _without_rules(value) for name, value in schema.items() if name != RULES_KEY}
    return schema


def structural(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """Convert a JSON schema to a structural one: inline references, unwrap unions with null, drop empty defaults.

    Raises:
        ValueError: the schema contains a union that a CRD cannot express.
    """
    schema = _resolve(schema, definitions)
    result = {name: deepcopy(value) for name, value in schema.items() if name not in _DROPPED}  # no YAML aliases
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
    default = without_nulls(schema.get("default"))
    if default not in (None, "", [], {}) and default is not False:
        result["default"] = default
    return result


def _resolve(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """Replace a reference, or a union with null, by its target. Keys next to the reference override the target's."""
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


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
