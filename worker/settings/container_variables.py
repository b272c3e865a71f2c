"""The variables and flags of a controller's container, with those of ConfigMaps, as its process sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tenon.apis.json_object import JsonObject, field_at

ConfigMaps = Mapping[str, Mapping[str, str]]
"""The data of ConfigMaps in the Deployment's namespace, by name. One that does not exist is missing."""


@dataclass(slots=True)
class Variables:
    """What a container's process has in its environment and as flags."""

    values: dict[str, str] = field(default_factory=dict)
    """By name of a variable. A flag is under the name of its variable, and wins over it, as in Karpenter."""
    unread_sources: list[JsonObject] = field(default_factory=list)
    """Entries of ``envFrom`` whose variables are not known: Secrets, and ConfigMaps that are missing."""
    unread_variables: list[JsonObject] = field(default_factory=list)
    """Entries of ``env`` whose value is not known."""


def config_map_names(deployment: JsonObject) -> frozenset[str]:
    """Return the names of the ConfigMaps that `variables_of` needs."""
    references = [
        reference
        for container in _controllers(deployment)
        for reference in (
            *(source.get("configMapRef") for source in container.get("envFrom") or ()),
            *((entry.get("valueFrom") or {}).get("configMapKeyRef") for entry in container.get("env") or ()),
        )
    ]
    return frozenset(str(reference.get("name")) for reference in references if reference)


def variables_of(deployment: JsonObject, config_maps: ConfigMaps) -> Variables:
    """Return the variables of a controller's Deployment. Those of ``env`` win over those of ``envFrom``."""
    result = Variables()
    for container in _controllers(deployment):
        for source in container.get("envFrom") or ():
            data = _data(source.get("configMapRef"), config_maps)
            if data is None:
                result.unread_sources.append(source)
            else:
                result.values |= {f"{source.get('prefix') or ''}{key}": text for key, text in data.items()}
        for entry in container.get("env") or ():
            text = _text(entry, config_maps)
            if text is None:
                result.values.pop(str(entry["name"]), None)
                result.unread_variables.append(entry)
            else:
                result.values[str(entry["name"])] = text
        arguments = (*(container.get("command") or ())[1:], *(container.get("args") or ()))
        result.values |= dict(_flags([str(argument) for argument in arguments]))
    return result


def source_name(source: JsonObject) -> str:
    """Return what an entry of ``envFrom`` names: 'Secret more'."""
    for reference, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        if reference in source:
            return f"{kind} {source[reference].get('name')}"
    return "an unknown source"


def _controllers(deployment: JsonObject) -> Sequence[JsonObject]:
    containers: Sequence[JsonObject] = field_at(deployment, "spec", "template", "spec", "containers") or []
    return [item for item in containers if item.get("name") in ("controller", "karpenter")] or containers[:1]


def _data(reference: JsonObject | None, config_maps: ConfigMaps) -> Mapping[str, str] | None:
    if reference is None:
        return None
    return config_maps.get(str(reference.get("name")), {} if reference.get("optional") else None)


def _text(entry: JsonObject, config_maps: ConfigMaps) -> str | None:
    if "valueFrom" not in entry:
        return str(entry.get("value") or "")
    reference = entry["valueFrom"].get("configMapKeyRef")
    data = _data(reference, config_maps)
    return None if data is None else data.get(str(reference.get("key")))


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    rest = list(arguments)
    while rest:
        item = rest.pop(0)
        if not item.startswith("-"):
            continue
        name, equals, text = item.lstrip("-").partition("=")
        if not equals:
            text = rest.pop(0) if rest and not rest[0].startswith("-") else "true"
        yield name.upper().replace("-", "_"), text
