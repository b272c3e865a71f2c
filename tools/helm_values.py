"""Generates parts of the Helm chart: the names of the settings, the schema of the values, and the RBAC rules.

They are generated from `worker/settings`, `deploy/rbac.yaml`, `deploy/rbac-gates` and the chart's own values, so that
the chart cannot miss any of them, and refuses a misspelled value.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tenon.provisioning.gates import AWS_GATES, GATES, REMOVED
from worker.settings import Settings
from worker.settings.chart_names import OTHER_VALUE_NAMES, gate_value_name, value_name
from worker.settings.env_typos import REMOVED as REMOVED_SETTINGS

CHART = Path("deploy/chart")
RIGHTS = Path("deploy/rbac.yaml")
GATED_RIGHTS = Path("deploy/rbac-gates")
"""By feature gate, what the worker needs only while the gate is on."""
VALUES = CHART / "values.yaml"
IGNORED = CHART / "files" / "ignored.yaml"
REMOVED_VALUES = ("assume_role_arn", "assume_role_duration")
"""Settings in values of Karpenter's charts before 1.0. The worker explains what to use instead."""
_FREE = frozenset(
    {
        "additionalLabels", "additionalAnnotations", "annotations", "endpointConfig", "labels", "podLabels",
        "podAnnotations", "podSecurityContext", "securityContext", "strategy", "dnsConfig", "nodeSelector",
        "affinity", "resources", "connection", "rollout", "sunset",
    }
)  # fmt: skip
"""Objects of the values whose fields are Kubernetes' or the user's. All others have the fields of values.yaml."""
_ONE_OR_MORE = ("initContainers", "sidecarContainer")
"""Lists that Karpenter's chart also takes as an object: its default of the first is an empty one."""
_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_HEADER = "made by `make generate`; change {} instead"
_LABELS = '{{- include "tenon.labels" . | nindent 4 }}'
_ANNOTATIONS = """  {{- with .Values.additionalAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
"""
_KEPT = """  annotations:
    {{- $own := .Values.additionalAnnotations | default dict }}
    {{- merge (dict "helm.sh/resource-policy" "keep") $own | toYaml | nindent 4 }}
"""
_FULLNAME = '{{ include "tenon.fullname" . }}'
_ACCOUNT = '{{ include "tenon.serviceAccountName" . }}'
_NAMESPACE = "{{ .Release.Namespace }}"
LEASE = str(Settings.model_fields["leader_election_name"].default)
_LEASE_NAME = f'tpl (.Values.settings.leaderElectionName | default "{LEASE}") .'
_LEASE = f"{{{{ {_LEASE_NAME} }}}}"
_LEASES = f"""  - {LEASE}
  {{{{- if ne ({_LEASE_NAME}) "{LEASE}" }}}}
  - '{_LEASE}'
  {{{{- end }}}}
"""
"""The worker always looks for Karpenter's Lease, whatever its own Lease is called."""
_LABELS_MARK = "LABELS"
_ANNOTATIONS_MARK = "ANNOTATIONS"
_KEPT_MARK = "KEPT"
_LEASES_MARK = "LEASES"


def chart_texts() -> dict[Path, str]:
    """Text of each generated chart file, by path."""
    fields = [*(field for field in Settings.model_fields if field not in OTHER_VALUE_NAMES), *REMOVED_VALUES]
    names = {value_name(field): field.upper() for field in fields}
    source = _HEADER.format("worker/settings/model.py")
    gated_rights = "".join(map(_gated_rights, sorted(GATED_RIGHTS.glob("*.yaml"))))
    return {
        CHART / "files" / "settings.yaml": f"# {source}.\n" + yaml.safe_dump(names, sort_keys=False),
        CHART / "values.schema.json": json.dumps(_schema(source), indent=2) + "\n",
        CHART / "templates" / "rbac.yaml": _of_worker(_rights()),
        CHART / "templates" / "rbac-gates.yaml": _of_worker(gated_rights),
    }


def _of_worker(text: str) -> str:
    """Leave the text of a template out where the chart installs `tenon shadow`, which gets no right to write."""
    return f"{{{{- if not .Values.shadow.enabled }}}}\n{text}{{{{- end }}}}\n"


def _schema(source: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        value_name(field): _value(field) for field in Settings.model_fields if field not in OTHER_VALUE_NAMES
    }
    for field in REMOVED_VALUES:
        settings[value_name(field)] = {"description": REMOVED_SETTINGS[field.upper()], "type": ["null", "string"]}
    settings["featureGates"] = _gates([*GATES, *REMOVED])
    settings["awsFeatureGates"] = _gates(AWS_GATES)
    values = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    schema = _object({name: default for name, default in values.items() if name != "settings"})
    schema["properties"] |= {
        "global": {},  # Helm gives it to every chart that is part of another
        "enabled": {"type": "boolean"},  # the usual condition of such a part, which only Helm reads
        "replicas": {"type": "integer", "minimum": 0},
        "logLevel": {"enum": ["debug", "info", "warn", "error", "DEBUG", "INFO", "WARN", "ERROR"]},
        "logOutputPaths": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "logErrorOutputPaths": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "settings": {"type": "object", "properties": settings, "additionalProperties": False},
    }
    for path, instead in yaml.safe_load(IGNORED.read_text(encoding="utf-8")).items():
        *parents, name = path.split(".")
        inside = schema["properties"]
        for parent in parents:
            inside = inside[parent]["properties"]
        inside[name] = {"description": f"Ignored: {instead}."}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "$comment": source, **schema}


def _object(values: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object that has only the fields of ``values``, with the types of these defaults."""
    fields = {name: _field(name, default) for name, default in values.items()}
    return {"type": "object", "properties": fields, "additionalProperties": False}


def _field(name: str, default: Any) -> dict[str, Any]:
    if isinstance(default, dict) and name not in _FREE:
        return _object(default)
    if default is None:
        return {}
    kinds = {_TYPES[type(default)], "null"} | ({"object"} if name in _ONE_OR_MORE else set())
    return {"type": sorted(kinds | ({"string"} if type(default) in (int, float) else set()))}  # people quote numbers


def _value(field: str) -> dict[str, Any]:
    schema = Settings.model_json_schema()["properties"][field]
    described = {key: schema[key] for key in ("description", *_BOUNDS) if key in schema}
    if "enum" in schema:
        return {**described, "enum": [*schema["enum"], "", None]}
    # Users often quote numbers and booleans, and so do Karpenter's own values.
    kinds = {schema.get("type", "string"), "string", "null"}
    return {**described, "type": sorted(kinds)}


def _gates(names: Any) -> dict[str, Any]:
    gates = {gate_value_name(name): {"type": ["boolean", "null", "string"]} for name in names}
    return {"type": ["object", "null"], "properties": gates, "additionalProperties": False}


def _gated_rights(path: Path) -> str:
    if path.stem not in GATES:
        raise TypeError(f"{path}: {path.stem} is not a feature gate: name the file like the gate that needs the rights")
    gate = gate_value_name(path.stem)
    condition = f'eq (toString (get (.Values.settings.featureGates | default dict) "{gate}")) "true"'
    return f"{_header(path)}{{{{- if {condition} }}}}\n---\n{_documents(path)}{{{{- end }}}}\n"


def _rights() -> str:
    return f"{_header(RIGHTS)}{_documents(RIGHTS)}"


def _header(path: Path) -> str:
    return f"{{{{- /* {_HEADER.format(path.as_posix())} */ -}}}}\n"


def _documents(path: Path) -> str:
    text = "---\n".join(
        _document(document)
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document["kind"] not in ("Namespace", "ServiceAccount")
    )
    text = text.replace(f"    {_LABELS_MARK}: ''\n", f"    {_LABELS}\n")
    text = text.replace(f"  {_ANNOTATIONS_MARK}: ''\n", _ANNOTATIONS).replace(f"  {_KEPT_MARK}: ''\n", _KEPT)
    return text.replace(f"  - {_LEASES_MARK}\n", _LEASES)


def _document(document: dict[str, Any]) -> str:
    """Format one document. The Secret and the rule for it depend on the webhook being enabled."""
    renamed = _named(document)
    if document["kind"] == "Secret":
        return _with_webhook(_dumped(renamed))
    text = _dumped(renamed)
    for rule in renamed.get("rules", ()):
        if rule["resources"] == ["secrets"]:
            text = text.replace(_dumped([rule]), _with_webhook(_dumped([rule])))
    return text


def _dumped(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, width=1000)


def _with_webhook(text: str) -> str:
    return f"{{{{- if .Values.webhook.enabled }}}}\n{text}{{{{- end }}}}\n"


def _named(document: dict[str, Any]) -> dict[str, Any]:
    """Return an RBAC document for any release, with the chart's names, namespace and labels."""
    metadata = document["metadata"]
    labels = {key: value for key, value in metadata["labels"].items() if key != "app.kubernetes.io/part-of"}
    metadata = {**metadata, "labels": {_LABELS_MARK: "", **labels}}
    if document["kind"] == "Secret":  # the worker names the Secret, and its content outlives a release
        metadata[_KEPT_MARK] = ""
    else:
        metadata[_ANNOTATIONS_MARK] = ""
        metadata["name"] = _of_release(metadata["name"])
    if metadata.get("namespace") == "tenon":
        metadata["namespace"] = _NAMESPACE
    renamed = {**document, "metadata": metadata}
    if "roleRef" in document:
        renamed["roleRef"] = {**document["roleRef"], "name": _of_release(document["roleRef"]["name"])}
        renamed["subjects"] = [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": _NAMESPACE}]
    for rule in renamed.get("rules", ()):
        if "resourceNames" in rule:
            lease = _LEASE if "namespace" in metadata else _LEASES_MARK
            rule["resourceNames"] = [lease if name == LEASE else name for name in rule["resourceNames"]]
    return renamed


def _of_release(name: str) -> str:
    return _FULLNAME + name.removeprefix("tenon")
