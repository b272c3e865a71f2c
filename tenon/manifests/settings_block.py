"""Replaces a settings ConfigMap with a comment that lists the environment variables and Helm values to set instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from tenon.apis.legacy.global_settings import convert_settings
from tenon.manifests.documents import Item
from tenon.manifests.yaml_scalars import UnreadableError, plain_value
from tenon.manifests.yaml_writer import as_yaml, comment_line

CHART: Mapping[str, str] = {
    "BATCH_MAX_DURATION": "settings.batchMaxDuration",
    "BATCH_IDLE_DURATION": "settings.batchIdleDuration",
    "CLUSTER_CA_BUNDLE": "settings.clusterCABundle",
    "CLUSTER_NAME": "settings.clusterName",
    "CLUSTER_ENDPOINT": "settings.clusterEndpoint",
    "ISOLATED_VPC": "settings.isolatedVPC",
    "VM_MEMORY_OVERHEAD_PERCENT": "settings.vmMemoryOverheadPercent",
    "INTERRUPTION_QUEUE": "settings.interruptionQueue",
    "RESERVED_ENIS": "settings.reservedENIs",
    "DEFAULT_INSTANCE_PROFILE": "settings.defaultInstanceProfile",
    "DEFAULT_TAGS": "settings.defaultTags",
    "LOG_LEVEL": "logLevel",
    "LOG_OUTPUT_PATHS": "logOutputPaths",
    "LOG_ERROR_OUTPUT_PATHS": "logErrorOutputPaths",
}
"""Helm value of each setting that a ConfigMap could hold."""
_NO_TEXTS = ("ISOLATED_VPC", "VM_MEMORY_OVERHEAD_PERCENT", "RESERVED_ENIS")
_LISTS = ("LOG_OUTPUT_PATHS", "LOG_ERROR_OUTPUT_PATHS")
_MAX_NOTE_WIDTH = 100


def settings_block(item: Item) -> tuple[str, Sequence[str]]:
    """Return the comment that replaces a settings ConfigMap, and its notes one by one."""
    settings = convert_settings(item.body)
    metadata = item.body["metadata"]
    name = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    lines = [f"was ConfigMap {name}: settings are environment variables of the worker now"]
    came_from: dict[str, list[str]] = {}
    for note in settings.notes:
        old, _, rest = note.partition(" is ")
        came_from.setdefault(rest.partition(" now")[0], []).append(old)
    if settings.values:
        lines.append("env:")
        for variable, value in settings.values.items():
            lines.append(f"  - name: {variable} # was {' and '.join(came_from[variable])}")
            lines += [f"    {line}" for line in as_yaml({"value": value}).splitlines()]
        lines.append("or, in the values of the chart:")
        lines += as_yaml(_chart_values(settings.values)).splitlines()
    dropped = [note for note in settings.notes if note.partition(" is ")[2].partition(" now")[0] not in settings.values]
    for note in dropped:
        lines += wrap(note, _MAX_NOTE_WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n" + "".join(f"# {comment_line(line)}".rstrip() + "\n" for line in lines), settings.notes


def _chart_values(values: Mapping[str, str]) -> dict[str, Any]:
    chart_values: dict[str, Any] = {}
    for variable, text in values.items():
        section, _, name = CHART[variable].rpartition(".")
        holder = chart_values.setdefault(section, {}) if section else chart_values
        holder[name] = text.split(",") if variable in _LISTS else _typed(text) if variable in _NO_TEXTS else text
    return chart_values


def _typed(text: str) -> Any:
    try:
        return plain_value(text)
    except UnreadableError:
        return text
