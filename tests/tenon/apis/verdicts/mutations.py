"""Manifests that differ from a good one in one value: at, below and above each bound, of other types, missing, unknown.

What is due in each place is read from the schema of the CRD; nobody writes the cases down, and no field is forgotten.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
Path = tuple[str | int, ...]
GONE = object()

PLAIN_TEXTS = ("", "5", "a b", "x\n")
TEXTS = (
    "", "0", "5", "-1", "1.5", "true", "a b", "a/b", "a/b/c", "-a", "é", "x\n", " x", "1h", "1h30m", "90s", "1d", "-1h",
    "1.5h", "500ms", "Never", "never", "50%", "100%", "101%", "1Gi", "1gi", "59000Gi", "59001Gi", "58Ti", "59Ti", "64T",
    "@daily", "0 9 * * *", "61 * * * *", "9m0s", "*",
)  # fmt: skip
TIMES = (
    "2026-01-31", "2026-01-31T12:00:00", "2026-01-31T12:00:00Z", "2026-01-31t12:00:00z", "2026-01-31T12:00:00.5+02:00",
    "2026-02-30T12:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31 12:00:00Z", "now",
)  # fmt: skip
WRONG_FOR_TEXT: tuple[Any, ...] = (7, True, {"a": "b"})
NUMBERS: tuple[Any, ...] = (-1, 0, 1, 5.0, 5.5, "5", True, 2**31, 2**63, -(2**63) - 1)
BOOLEANS: tuple[Any, ...] = (True, False, "true", "yes", 0, 1, [])
QUANTITIES: tuple[Any, ...] = (
    0, 5, -1, 1.5, 5.0, True, [], "5", "-1", "+5", "1.5", "5.", ".5", "1e3", "1E3", "1e", "1 Gi", "1Gi", "1gi", "1GiB",
    "", "Gi", "many", "1_000", "5\n", 10**30, "9223372036854775808", "1e400", "vcpus", "-vcpus", " vcpus * 2\n",
)  # fmt: skip
KEYS = ("", "a b", "example.com/ok", "a/b/c", "kubernetes.io/hostname", "karpenter.sh/nodepool", "k" * 64)


def mutations(schema: Schema, manifest: dict[str, Any], names: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every case made from a good manifest, with a name that says what was changed.

    A place whose name and schema are in ``names`` has been tried in another manifest: it is passed over.
    """
    for path, value in _places(schema["properties"]["spec"], manifest["spec"], ("spec",), names):
        changed = copy.deepcopy(manifest)
        *parents, last = path
        place: Any = changed
        for parent in parents:
            place = place[parent]
        if value is GONE:
            del place[last]
        else:
            place[last] = value
        yield f"{'.'.join(map(str, path))} = {'nothing' if value is GONE else _shown(value)}", changed


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text)})"


def _places(schema: Schema, value: Any, path: Path, names: set[str]) -> Iterator[tuple[Path, Any]]:
    text = f"{next(part for part in reversed(path) if isinstance(part, str))} {json.dumps(schema, sort_keys=True)}"
    is_new = text not in names
    names.add(text)
    if is_new:
        yield path, None
        if path != ("spec",):
            yield path, GONE
        yield from ((path, other) for other in _others(schema, value))
    if isinstance(value, dict):
        properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
        if is_new:
            yield (*path, "colour"), "blue"
            yield from (((*path, key), value[next(iter(value))]) for key in KEYS if extra and value)
        for name, inner in value.items():
            if name in properties:
                yield from _places(properties[name], inner, (*path, name), names)
            elif extra:
                yield from _places(extra, inner, (*path, name), names)
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(schema["items"], inner, (*path, index), names)


def _others(schema: Schema, value: Any) -> Iterator[Any]:
    """Other values for one place, good and bad ones."""
    kind = schema.get("type")
    if "x-kubernetes-int-or-string" in schema:
        yield from QUANTITIES
    elif kind == "string":
        yield from WRONG_FOR_TEXT
        if "enum" in schema:
            yield from (*schema["enum"], "Unheard", schema["enum"][0].swapcase(), "")
        else:
            yield from TEXTS if "pattern" in schema else TIMES if "format" in schema else PLAIN_TEXTS
        if "maxLength" in schema:
            yield from ("a" * schema["maxLength"], "a" * (schema["maxLength"] + 1))
    elif kind == "integer":
        yield from NUMBERS
        for bound in (schema.get("minimum"), schema.get("maximum")):
            yield from () if bound is None else (bound - 1, bound, bound + 1)
    elif kind == "boolean":
        yield from BOOLEANS
    elif kind == "array":
        yield from ({}, "x", [None], [7], [[]], [], [*value, value[0]] if value else [])
        if "maxItems" in schema and value:
            yield from ([value[0]] * size for size in (schema["maxItems"], schema["maxItems"] + 1))
    else:
        yield from ([], "x", 7, {})
        if "maxProperties" in schema and value:
            example, most = next(iter(value.values())), schema["maxProperties"]
            yield from ({f"k{i}": example for i in range(size)} for size in (most, most + 1))
