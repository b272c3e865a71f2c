"""Merges the settings: flag before environment before ConfigMap before default. Records the source of each.

A value that a higher source overrides is not validated. All errors are reported together, each in a sentence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tenon.apis.legacy.global_settings import Settings as OldSettings
from tenon.errors import TenonError
from tenon.provisioning.gates import named_gates, parse_feature_gates
from worker.settings import effects, env_typos, open_telemetry
from worker.settings.model import Settings

Source = Literal["flag", "environment", "ConfigMap", "default"]

MAX_SHOWN = 500
"""Maximum number of characters of a value that a message quotes."""
_PLAINER = {
    "bool_parsing": "it must be true or false",
    "bool_type": "it must be true or false",
    "int_parsing": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_parsing": "it must be a number",
    "finite_number": "it must be a number",
}
"""Replaces pydantic's error messages, which are written for programmers."""


class SettingsError(TenonError):
    """Invalid settings. The message has one sentence per error."""


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value before validation, and its source."""

    value: Any
    source: Source


@dataclass(frozen=True)
class Loaded:
    """The settings, with their sources, warnings and notes."""

    settings: Settings
    sources: Mapping[str, Source]
    """The source of each setting, by field name."""
    warnings: Sequence[str] = ()
    """Settings that do not do what their name says, one sentence each."""
    notes: Sequence[str] = field(default=())
    """What settings of earlier Karpenter versions were converted to."""
    named_gates: frozenset[str] = frozenset()
    """The feature gates that any source sets. The others have their defaults."""


def load(**flags: Any) -> Settings:
    """Load the settings of this process from flags and environment. Flags win.

    Raises:
        SettingsError: with one sentence for each setting that is missing or malformed.
    """
    return _read(gather(flags, os.environ))


def load_all(
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    config_maps: OldSettings | None = None,
    faults: Sequence[str] = (),
) -> Loaded:
    """Load the settings and their sources, for the process that an operator starts.

    Args:
        flags: values by field name; None means that the flag was not given.
        environment: variables by name.
        config_maps: the settings of karpenter-global-settings and config-logging.
        faults: errors found earlier, which are reported together with the others.

    Raises:
        SettingsError: with one sentence for each setting that is unknown, missing or malformed.
    """
    unknown, removed = env_typos.check_environment(environment)
    old = config_maps or OldSettings()
    problems = [*faults, *unknown, *(f"ConfigMap: {problem}." for problem in old.problems)]
    gathered = gather(flags, environment, old)
    try:
        settings = _read(gathered)
    except SettingsError as error:
        raise SettingsError("\n".join([*problems, str(error)])) from None
    problems += _clashes(settings)
    problems += open_telemetry.refused_protocols(environment, settings.record_sinks)
    if problems:
        raise SettingsError("\n".join(problems))
    sources: dict[str, Source] = {
        name: gathered[name].source if name in gathered else "default" for name in Settings.model_fields
    }
    gates = {name: gathered[name].value for name in ("feature_gates", "aws_feature_gates") if name in gathered}
    texts = {name: value for name, value in gates.items() if isinstance(value, str)}
    removed_gates = parse_feature_gates(texts.get("feature_gates", ""))[1]
    gate_names = frozenset[str]().union(*map(named_gates, texts.values()))
    return Loaded(
        settings,
        sources,
        warnings=[*removed_gates, *removed, *effects.warnings(settings, gate_names)],
        notes=[f"{note}." for note in old.notes],
        named_gates=gate_names,
    )


def _clashes(settings: Settings) -> list[str]:
    """Errors for ports that two of the worker's servers would both listen on. Port 0, any free port, never clashes."""
    names = ["metrics_port", "health_probe_port", *([] if settings.disable_webhook else ["webhook_port"])]
    by_port: dict[int, list[str]] = {}
    for name in names:
        by_port.setdefault(getattr(settings, name), []).append(name.upper())
    return [
        f"{' and '.join(same)} are {port}: give each a different port."
        for port, same in by_port.items()
        if port and len(same) > 1
    ]


def gather(
    flags: Mapping[str, Any], environment: Mapping[str, str], config_maps: OldSettings | None = None
) -> dict[str, SourcedValue]:
    """The values that are set, by field name. An empty string counts as not set, because charts write it so."""
    old = config_maps or OldSettings()
    lowest = old.values
    gathered = {}
    for name in Settings.model_fields:
        if flags.get(name) not in (None, ""):
            gathered[name] = SourcedValue(flags[name], "flag")
        elif environment.get(name.upper()):
            gathered[name] = SourcedValue(environment[name.upper()], "environment")
        elif lowest.get(name.upper()):
            gathered[name] = SourcedValue(lowest[name.upper()], "ConfigMap")
    return gathered


def flag_of(name: str) -> str:
    """The command-line flag of a setting, such as ``--cluster-name``."""
    return f"--{name.lower().replace('_', '-')}"


def _read(sources: Mapping[str, SourcedValue]) -> Settings:
    try:
        return Settings(**{name: source.value for name, source in sources.items()})
    except ValidationError as error:
        raise SettingsError("\n".join(_sentence(fault, sources) for fault in error.errors())) from None


def _sentence(fault: ErrorDetails, sources: Mapping[str, SourcedValue]) -> str:
    name = str(fault["loc"][0])
    if fault["type"] == "missing":
        return f"{name.upper()} is required: set it in the environment or with {flag_of(name)}."
    source = sources[name]
    where = " of the old ConfigMaps" if source.source == "ConfigMap" else ""
    why = _PLAINER.get(
        fault["type"], fault["msg"].removeprefix("Value error, ").replace("Input should be", "it must be")
    )
    return f"{name.upper()}={_shown(source.value)}{where} cannot be used: {why}."


def _shown(value: Any) -> str:
    """The value in quotes, cut off after `MAX_SHOWN` characters."""
    shown = repr(value)
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."
