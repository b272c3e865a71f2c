"""Generates the reference pages of the documentation, so that no field and no setting is missing or out of date."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

from pydantic import BaseModel

from tenon.apis.base import RULES_KEY
from tenon.apis.crd import custom_resource_definitions
from tenon.kube import pool_reasons
from tenon.kube.event_reasons import EventReason
from tenon.messages.explanation import Explanation
from tenon.provisioning.gates import AWS_GATES, MEANINGS
from tenon.record import entries
from tools.command_page import COMMANDS, commands_page
from tools.log_page import LOG_LINES, log_page
from tools.tracing_page import tracing_page
from worker.settings import Settings, flag_of
from worker.settings.effects import gate_values, why_none
from worker.settings.model import text

FIELDS = Path("docs/fields.md")
SETTINGS = Path("docs/all-settings.md")
EVENTS = Path("docs/events.md")
RECORD = Path("docs/record-fields.md")
TRACING = Path("docs/tracing.md")

_NEWEST = (
    "karpenter.sh_nodepools.yaml",
    "karpenter.k8s.aws_ec2nodeclasses.yaml",
    "karpenter.sh_nodeclaims.yaml",
    "karpenter.sh_nodeoverlays.yaml",
    "tenon.sh_disruptionfreezes.yaml",
    "tenon.sh_noderepairpolicies.yaml",
    "tenon.sh_noderollouts.yaml",
    "tenon.sh_nodeschedules.yaml",
    "autoscaling.x-k8s.io_capacitybuffers.yaml",
)
"""The kinds that the page lists. Their older versions, and the kinds before v1beta1, are read and converted only."""

_FIELDS_TOP = """# Every field

<!-- Made by `make generate` from tenon/apis. Change the models there, not this page. -->

This page lists the fields of the newest version of each kind, with the types, defaults and rules that the API server
checks. `kubectl explain nodepool.spec` prints the fields from a cluster. [concepts.md](concepts.md) says what the kinds
are for, and [old-apis.md](old-apis.md) says what Tenon does with older versions.

- A field in **bold** is required if its parent object is set.
- `[]` stands for each item of a list, and `.*` for each entry of a map.
- A field without a default is absent unless you set it.
- Only Tenon writes the fields of a status.
"""

_SETTINGS_TOP = """# Every setting

<!-- Made by `make generate` from worker/settings. Change the settings there, not this page. -->

Each setting is an environment variable of the worker and a flag of `tenon worker`. [settings.md](settings.md) says
which source takes precedence, and explains the settings that need it. The settings of the connections to Temporal
(`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, certificates) and AWS (`AWS_REGION`, credentials) are
Temporal's and AWS's standard environment variables.

A duration is a text such as `90s`, `10m` or `1h30m`. A switch is `true` or `false`; its flag alone means `true`.
"""

_EVENTS_TOP = """# Every event

<!-- Made by `make generate` from tenon/kube/event_reasons.py. Change the reasons there, not this page. -->

This page lists the Kubernetes events that Tenon publishes, by reason. `kubectl describe` shows those of an object, and
`kubectl get events -A --field-selector reason=Disrupted` those of one reason. [troubleshooting.md](troubleshooting.md)
begins with what you see, and says what to do.

When a condition of a NodePool, an EC2NodeClass or an object of an older API says that something is wrong, an event has
the reason of the condition. When a condition of an EC2NodeClass changes, an event has its type as the reason.

FailedScheduling on a pod for which no node is bought has the annotation `tenon.sh/no-place`: what the message says, as
JSON, with a clause for each NodePool. Its fields are those of a [reason](record-fields.md#inside-reason) in the record.

| reason | type | on | means |
|---|---|---|---|
"""


_RECORD_TOP = """# Every field of the record

<!-- Made by `make generate` from tenon/record/entries.py. Change the entries there, not this page. -->

Each line of the record is a JSON object, whose field `kind` says what it tells of. [record.md](record.md) says where
the record goes and how to read it.

- A field in **bold** is always there. Another one that is absent has its default.
- Times are in UTC, as `2026-11-27T06:15:01Z`. Prices and savings are in dollars an hour, costs in dollars.
- Texts and lists are bounded: the counts next to a list are complete.
- From release 0.1.0 on, entries only gain fields. Ignore fields that you do not know.
"""

_RECORD_PARTS: dict[type, str] = {
    entries.RecordedPurchase: "purchase",
    Explanation: "explanation",
    pool_reasons.NoPlace: "reason",
    pool_reasons.Clause: "clause",
    pool_reasons.Obstacle: "obstacle",
    entries.CommandCandidate: "candidate",
    entries.CommandApproval: "approval",
    entries.RecordedNode: "node",
    entries.BlockedBy: "wait",
    entries.CostRow: "row",
    entries.DecidedCommand: "decided command",
}
"""What entries have inside, with what the page calls it."""


def page_texts() -> dict[Path, str]:
    """Return the text of each page by its path in the repository."""
    return {
        FIELDS: fields_page(),
        SETTINGS: settings_page(),
        EVENTS: events_page(),
        COMMANDS: commands_page(),
        RECORD: record_page(),
        TRACING: tracing_page(),
        LOG_LINES: log_page(),
    }


def fields_page() -> str:
    """Return the page of all fields."""
    definitions = custom_resource_definitions(checked_by_tenon=True)
    return _FIELDS_TOP + "".join(_kind(definitions[name]["spec"]) for name in _NEWEST)


def events_page() -> str:
    """Return the page of all events."""
    rows = (f"| {reason} | {reason.type} | {reason.objects} | {reason.meaning} |\n" for reason in EventReason)
    return _EVENTS_TOP + "".join(rows)


def record_page() -> str:
    """Return the page of all fields of the record.

    Raises:
        TypeError: a field has no docstring.
    """
    common = cast("type[BaseModel]", record_kinds()[0].__base__)
    parts = [_RECORD_TOP, _record_section("Every entry", "What all entries have.", common, ())]
    for model in record_kinds():
        kind = str(model.model_fields["kind"].default)
        parts.append(_record_section(f"`{kind}`", str(model.__doc__), model, tuple(common.model_fields)))
    for part, title in _RECORD_PARTS.items():
        parts.append(_record_section(f"Inside: {title}", str(part.__doc__), part, ()))
    return "".join(parts)


def record_kinds() -> tuple[type[BaseModel], ...]:
    """Return the model of each kind of entry."""
    kinds: tuple[type[BaseModel], ...] = get_args(get_args(entries.Entry)[0])
    return kinds


def _record_section(title: str, about: str, model: type, inherited: tuple[str, ...]) -> str:
    meanings = _attribute_docstrings(model)
    rows = []
    for name, (annotation, is_required) in _record_fields(model).items():
        if name not in inherited:
            shown = f"**`{name}`**" if is_required or name == "kind" else f"`{name}`"
            rows.append(f"| {shown} | {_record_type(annotation)} | {_plain(meanings[name])} |\n")
    return f"\n## {title}\n\n{_plain(about)}\n\n| field | type | meaning |\n|---|---|---|\n{''.join(rows)}"


def _record_fields(model: type) -> dict[str, tuple[str, bool]]:
    """Return the annotation of each field, and whether it is always there. ``model``: or a dataclass."""
    if issubclass(model, BaseModel):
        return {name: (str(field.annotation), field.is_required()) for name, field in model.model_fields.items()}
    assert is_dataclass(model)
    hints = get_type_hints(model)
    return {field.name: (str(hints[field.name]), field.default is MISSING) for field in dataclass_fields(model)}


def _attribute_docstrings(model: type) -> dict[str, str]:
    """The docstring of each field: pydantic keeps none unless every start of a worker parses the source.

    Raises:
        TypeError: a field has none.
    """
    body = cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]).body
    docstrings: dict[str, str] = {}
    for statement, following in itertools.pairwise([*body, ast.Pass()]):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            match following:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    docstrings[statement.target.id] = " ".join(text.split()).replace("``", "`")
                case _:
                    raise TypeError(f"the field {statement.target.id} of {model.__name__} has no docstring")
    return docstrings


def _is_list(annotation: str) -> bool:
    return annotation.startswith(("list", "tuple"))


def _record_type(annotation: str) -> str:
    """The type of a field as readers of JSON know it."""
    for part, title in _RECORD_PARTS.items():
        if f".{part.__name__}" in annotation:
            is_map = annotation.startswith("dict")
            return f"map of {title}s" if is_map else f"list of {title}s" if _is_list(annotation) else title
    if annotation.startswith("dict"):
        return "map of lists" if "list[" in annotation else "map"
    if _is_list(annotation):
        return "list of texts"
    for name, word in (("datetime", "time"), ("float", "number"), ("bool", "true or false"), ("int", "whole number")):
        if name in annotation:
            return word
    return "text"


def settings_page() -> str:
    """Return the page of all settings and feature gates."""
    parts = [_SETTINGS_TOP, "\n## Settings\n\n| setting | flag | default | meaning |\n|---|---|---|---|\n"]
    for name, field in Settings.model_fields.items():
        if name in ("feature_gates", "aws_feature_gates"):
            default = "see below"
        else:
            default = "required" if field.is_required() else _code(text(field.default)) or "empty"
        meaning = _meaning(field.description or "", name)
        parts.append(f"| `{name.upper()}` | `{flag_of(name)}` | {default} | {meaning} |\n")
    of_aws = ", ".join(_code(name) for name in AWS_GATES)
    parts.append(
        f"\n## Feature gates\n\nGates go into `FEATURE_GATES`, and those of AWS ({of_aws}) "
        "into `AWS_FEATURE_GATES`: `Gate=true,Gate=false`.\n\n| gate | default | meaning |\n|---|---|---|\n"
    )
    for gate, on in gate_values(Settings(cluster_name="any")).items():
        parts.append(f"| `{gate}` | `{str(on).lower()}` | {_meaning(MEANINGS[gate], gate)} |\n")
    return "".join(parts)


def _meaning(sentence: str, name: str) -> str:
    why = why_none(name)
    return _plain(sentence) + (f" **No effect in this version:** {_plain(why)}." if why else "")


def _kind(spec: dict[str, Any]) -> str:
    newest = spec["versions"][0]
    schema = newest["schema"]["openAPIV3Schema"]
    parts = [
        f"\n## {spec['names']['kind']}\n\n`{spec['group']}/{newest['name']}`, "
        f"{'for the whole cluster' if spec['scope'] == 'Cluster' else 'in a namespace'}. "
        f"{_plain(schema['description'])}\n"
    ]
    for part in ("spec", "status"):
        rows = list(_rows(schema["properties"][part], part))
        parts.append("\n| field | type | default | meaning |\n|---|---|---|---|\n" + "".join(rows))
        rules = [
            rule
            for path, object_schema in _objects(schema["properties"][part], part)
            for rule in _rules(path, object_schema)
        ]
        if rules:
            parts.append("\nRules:\n\n" + "".join(rules))
    return "".join(parts)


def _rows(schema: dict[str, Any], path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        inner = f"{path}.{name}"
        shown = f"**`{inner}`**" if name in required else f"`{inner}`"
        default = _code(_value(field["default"])) if "default" in field else ""
        yield f"| {shown} | {_type(field)} | {default} | {_plain(field.get('description', ''))} |\n"
        yield from _rows(*_inside(field, inner))


def _inside(field: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the object that a list or a map holds, and its path; or the field itself."""
    if "items" in field:
        return _inside(field["items"], f"{path}[]")
    if "additionalProperties" in field:
        return _inside(field["additionalProperties"], f"{path}.*")
    return field, path


def _objects(field: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    field, path = _inside(field, path)
    yield path, field
    for name, inner in field.get("properties", {}).items():
        yield from _objects(inner, f"{path}.{name}")


def _rules(path: str, schema: dict[str, Any]) -> Iterator[str]:
    for rule in schema.get(RULES_KEY, ()):
        yield f"- `{path}`: {_plain(rule['message'])}\n"


def _type(field: dict[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "items" in field:
        return f"list: {_type(field['items'])}{_bounds(field, 'Items', 'items')}"
    if "additionalProperties" in field:
        return f"map: {_type(field['additionalProperties'])}"
    if "enum" in field:
        return "one of " + ", ".join(_code(_value(value)) for value in field["enum"])
    if field.get("format") == "date-time":
        return "time"
    return str(field["type"]) + _bounds(field, "Length", "characters") + _range(field)


def _bounds(field: dict[str, Any], quantity: str, unit: str) -> str:
    most = field.get(f"max{quantity}")
    return f", at most {most} {unit}" if most is not None else ""


def _range(field: dict[str, Any]) -> str:
    least, most = field.get("minimum"), field.get("maximum")
    if least is not None and most is not None:
        return f", {least} to {most}"
    return f", {least} or more" if least is not None else ""


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _code(value: str) -> str:
    return f"`{value}`".replace("|", "\\|") if value else ""


def _plain(sentence: str) -> str:
    """The sentence as Markdown that shows it as it is, on one line of a table."""
    parts = " ".join(sentence.split()).split("`")
    for index in range(0, len(parts), 2):
        for special in "\\*_<[":
            parts[index] = parts[index].replace(special, f"\\{special}")
    return "`".join(parts).replace("|", "\\|")
