"""Evaluates the rules of the API's models as the API server does: the same CEL text, on the object as it is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tenon.apis.base import SERVER, ApiModel, Rule, kubernetes_name

_OPTIONAL = re.compile(r"!has\(self\.(\w+)\) \|\| [^?]*")
"""A rule that holds wherever a field is absent, which needs no evaluation. With a ``?`` it may be anything else."""


def broken_rules(model: ApiModel) -> list[tuple[str, Rule]]:
    """Return the rules that the model, or a model inside it, breaks, each with the field path of that model."""
    body = model.to_dict()
    _drop_unwritten(model, body)
    try:
        broken = list(_broken(model, body, ""))
    except RuntimeError:  # half of a surrogate pair, which the API server replaces too
        text = json.dumps(body, ensure_ascii=False).encode(errors="replace")
        return list(_broken(model, json.loads(text), ""))
    if broken and json.dumps(fitting := _with_floats(body)) != json.dumps(body):
        return list(_broken(model, fitting, ""))  # CEL has no integers beyond 64 bits, so that one breaks every rule
    return broken


def _with_floats(value: Any) -> Any:
    """Return the value with floats for integers beyond 64 bits, as the API server reads them."""
    if isinstance(value, dict):
        return {name: _with_floats(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    is_large = type(value) is int and not -(2**63) <= value < 2**63
    return float(value) if is_large else value


def _drop_unwritten(model: ApiModel, body: dict[str, Any]) -> None:
    """Remove the empty maps and lists that no one wrote: the API server has no such defaults."""
    for name, key, value in _fields(model):
        for child, _, part in _children(value, body.get(key), key):
            _drop_unwritten(child, part)
        if value in ({}, []) and name not in model.model_fields_set:
            body.pop(key, None)


def _broken(model: ApiModel, body: dict[str, Any], path: str) -> Iterator[tuple[str, Rule]]:
    rules = [rule for rule in model.rules if rule.enforced_by != SERVER and _is_in_question(rule.cel, body)]
    if rules:
        activation = _environment().Activation({"self": body})
        yield from ((path, rule) for rule in rules if _compiled(rule.cel).eval(activation).value() is not True)
    for _, key, value in _fields(model):
        for child, place, part in _children(value, body.get(key), f"{path}.{key}" if path else key):
            yield from _broken(child, part, place)


def _is_in_question(rule: str, body: dict[str, Any]) -> bool:
    optional = _OPTIONAL.fullmatch(rule)
    return optional is None or optional[1] in body


def _fields(model: ApiModel) -> Iterator[tuple[str, str, Any]]:
    return ((name, kubernetes_name(name), getattr(model, name)) for name in type(model).model_fields)


def _children(value: Any, body: Any, path: str) -> Iterator[tuple[ApiModel, str, dict[str, Any]]]:
    """Return the models that a field holds, each with its field path and its part of the object."""
    if isinstance(value, ApiModel):
        yield value, path, body
    elif isinstance(value, list) and value and isinstance(value[0], ApiModel):
        for index, item in enumerate(value):
            yield item, f"{path}[{index}]", body[index]


@cache
def _environment() -> Any:
    from cel_expr_python import cel  # a large library, which only processes that validate need
    from cel_expr_python.ext.ext_strings import ExtStrings

    return cel.NewEnv(variables={"self": cel.Type.DYN}, extensions=[ExtStrings()])


@cache
def _compiled(text: str) -> Any:
    return _environment().compile(text)
