"""Converts the ConfigMaps that held Karpenter's settings before environment variables and flags replaced them."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenon.apis.base import ApiModel
from tenon.apis.common import ObjectMeta
from tenon.apis.json_object import parse_json_object
from tenon.apis.legacy.awsnodetemplate import Defaults
from tenon.apis.legacy.conversion import Note, Renamed, stored
from tenon.apis.legacy.global_tags import DEFAULT_TAGS, is_tag_setting, tags_of
from tenon.apis.validation import FieldError

RENAMED: Mapping[str, str] = {
    "batchMaxDuration": "BATCH_MAX_DURATION",
    "batchIdleDuration": "BATCH_IDLE_DURATION",
    "aws.clusterCABundle": "CLUSTER_CA_BUNDLE",
    "aws.clusterName": "CLUSTER_NAME",
    "aws.clusterEndpoint": "CLUSTER_ENDPOINT",
    "aws.isolatedVPC": "ISOLATED_VPC",
    "aws.vmMemoryOverheadPercent": "VM_MEMORY_OVERHEAD_PERCENT",
    "aws.interruptionQueueName": "INTERRUPTION_QUEUE",
    "aws.reservedENIs": "RESERVED_ENIS",
    "aws.defaultInstanceProfile": "DEFAULT_INSTANCE_PROFILE",
    "loglevel.controller": "LOG_LEVEL",
}
DROPPED: Mapping[str, str] = {
    "featureGates.driftEnabled": "drift is always on",
    "aws.assumeRoleARN": "give the worker's own credentials the rights",
    "aws.assumeRoleDuration": "give the worker's own credentials the rights",
    "aws.enablePodENI": "pods that ask for vpc.amazonaws.com/pod-eni are counted on types that have it",
    "aws.enableENILimitedPodDensity": "write kubelet.maxPods into the EC2NodeClass for another number of pods",
    "loglevel.webhook": "LOG_LEVEL is that of every part",
}
"""Settings that no longer exist, and what to do instead."""
_LOGGER = {"level": "LOG_LEVEL", "outputPaths": "LOG_OUTPUT_PATHS", "errorOutputPaths": "LOG_ERROR_OUTPUT_PATHS"}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in the form that the worker reads now."""

    values: Mapping[str, str] = field(default_factory=dict)
    """The values by environment variable."""
    defaults: Defaults = field(default_factory=Defaults)
    """The defaults that the settings provide for node classes."""
    notes: tuple[str, ...] = ()
    """One sentence each: a `Renamed` on a new name, and a `Note` with its path on a value that cannot be used."""
    problems: tuple[FieldError, ...] = ()


class ConfigMap(ApiModel):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


def convert_settings(manifest: Mapping[str, Any]) -> Settings:
    """Convert karpenter-global-settings or config-logging to the settings under their current names."""
    config_map, problems = stored(ConfigMap, manifest, ("data.*",))
    if problems:
        return Settings(problems=tuple(problems))
    data: dict[str, str] = config_map.get("data") or {}
    values: dict[str, str] = {}
    notes: list[str] = []
    for key, value in data.items():
        if key in RENAMED:
            values[RENAMED[key]] = value
            notes.append(Renamed(key, RENAMED[key]))
        elif key == "zap-logger-config":
            own = "loglevel.controller" in data  # it overrides the level of the logger
            values |= {name: text for name, text in _logger(value, notes).items() if not own or name != "LOG_LEVEL"}
        elif key in DROPPED:
            notes.append(f"{key} no longer exists: {DROPPED[key]}")
        elif not is_tag_setting(key):
            notes.append(f"{key} is not a setting of Karpenter")
    tags, tag_notes = tags_of(data)
    if tags:
        values[DEFAULT_TAGS] = json.dumps(tags, ensure_ascii=False)
    defaults = Defaults(
        instance_profile=data.get("aws.defaultInstanceProfile", ""),
        cluster=data.get("aws.clusterName", ""),
        tags=tags,
    )
    return Settings(values, defaults, (*notes, *tag_notes))


def merged(parts: Iterable[Settings]) -> Settings:
    """Merge several ConfigMaps. If two define the same setting, the later one wins."""
    values: dict[str, str] = {}
    defaults = Defaults()
    notes: list[str] = []
    problems: list[FieldError] = []
    for part in parts:
        values |= part.values
        notes += part.notes
        problems += part.problems
        defaults = Defaults(
            part.defaults.instance_profile or defaults.instance_profile,
            part.defaults.cluster or defaults.cluster,
            tags=part.defaults.tags or defaults.tags,
        )
    return Settings(values, defaults, tuple(notes), tuple(problems))


def _logger(text: str, notes: list[str]) -> dict[str, str]:
    options = parse_json_object(text)
    if options is None:
        sentence = "zap-logger-config is not a JSON object and is left out: LOG_LEVEL sets the level now"
        notes.append(Note(sentence, "data[zap-logger-config]"))
        return {}
    values = {}
    for key, name in _LOGGER.items():
        value = options.get(key)
        if isinstance(value, list):
            value = ",".join(map(str, value))
        if isinstance(value, str) and value:
            values[name] = value
            notes.append(Renamed(f"{key} of zap-logger-config", name))
    return values
