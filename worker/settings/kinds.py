"""Types of settings other than plain numbers and strings, each with an error sentence of its own.

Durations are in Go's notation, and so are errors about their bounds.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator

from tenon.apis.legacy.global_tags import default_tags
from tenon.provisioning.gates import AwsFeatureGates, FeatureGates, parse_aws_feature_gates, parse_feature_gates
from worker.scheduler_document import scheduler_document
from worker.settings.record_sinks import checked_record_sinks

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

NEVER = "Never"
SHORTEST_WAIT = timedelta(seconds=10)
MAX_DURATION = timedelta(hours=876_000)
"""A hundred years. A longer duration overflows dates, and Temporal cannot wait for it."""
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SchedulerDocument = Annotated[str, AfterValidator(scheduler_document)]


def parse_duration(value: Any) -> timedelta:
    """Parse a Go duration such as ``10s`` or ``1m30s``, or a number of seconds.

    Raises:
        ValueError: the text is not a duration, or is longer than a hundred years.
    """
    if isinstance(value, timedelta):
        return value
    text = str(value).strip()
    parts = [(text, "s")] if re.fullmatch(r"\d+(?:\.\d+)?", text) else _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) not in (text, f"{text}s"):
        raise ValueError(f"{text!r} is not a duration: write it like 10s, 1m30s or 2h")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > MAX_DURATION.total_seconds():
        raise ValueError(f"{text!r} is too long for a duration: the maximum is 876000h, a hundred years")
    return timedelta(seconds=seconds)


def parse_wait(value: Any) -> timedelta | None:
    """Parse a timeout. Returns None, which means no timeout, for ``Never`` and ``0``.

    Raises:
        ValueError: the text is neither, or the timeout is shorter than `SHORTEST_WAIT`.
    """
    if value is None or str(value).strip().lower() == NEVER.lower():
        return None
    wait = parse_duration(value)
    if timedelta() < wait < SHORTEST_WAIT:
        raise ValueError(f"it must be at least {SHORTEST_WAIT.seconds}s; 0 or {NEVER} means no limit")
    return wait or None


def between(least: str, most: str = "") -> BeforeValidator:
    """Validate that a duration is within these bounds. Errors quote the bounds as an operator writes them."""

    def parse(value: Any) -> timedelta:
        duration = parse_duration(value)
        if duration < parse_duration(least) or (most and duration > parse_duration(most)):
            raise ValueError(f"it must be between {least} and {most}" if most else f"it must be at least {least}")
        return duration

    return BeforeValidator(parse)


def duration_text(value: timedelta) -> str:
    """The duration in the notation that `parse_duration` reads: ``1m30s``, ``0.5s``."""
    if value.microseconds:
        return f"{value.total_seconds():f}s"
    minutes, seconds = divmod(value.days * 86400 + value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = (f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", f"{seconds}s" if seconds else "")
    return "".join(parts) or "0s"


Wait = Annotated[timedelta | None, BeforeValidator(parse_wait)]


def _gates(value: Any) -> FeatureGates:
    return value if isinstance(value, FeatureGates) else parse_feature_gates(str(value))[0]


def _aws_gates(value: Any) -> AwsFeatureGates:
    return value if isinstance(value, AwsFeatureGates) else parse_aws_feature_gates(str(value))[0]


def _paths(value: Any) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in (value.split(",") if isinstance(value, str) else value))
    if not all(parts):
        raise ValueError("it must be a list of stdout, stderr and paths of files, separated by commas")
    return parts


def _endpoint(value: str) -> str:
    if value:
        _address(value, ("http", "https"))
    return value


def _secure(value: str) -> str:
    if value:
        _address(value, ("https",))
    return value


def _address(value: str, schemes: tuple[str, ...]) -> None:
    try:
        parts = urlsplit(value)
        good = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"it must be an address like {schemes[-1]}://name.example.com")


def _bundle(value: str) -> str:
    try:
        base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it must be the certificate authority in base64, as in a kubeconfig file") from None
    return "".join(value.split())


def _tags(value: str) -> str:
    default_tags(value)
    return value


def _namespaces(value: str) -> str:
    names = [namespace.strip() for namespace in value.split(",")]
    if bad := next((namespace for namespace in names if not _NAMESPACE.fullmatch(namespace)), None):
        raise ValueError(f"{bad!r} is not the name of a namespace: write names with commas, such as kube-system,nodes")
    return ",".join(names)


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


Gates = Annotated[FeatureGates, BeforeValidator(_gates)]
AwsGates = Annotated[AwsFeatureGates, BeforeValidator(_aws_gates)]
Paths = Annotated[tuple[str, ...], BeforeValidator(_paths)]
Endpoint = Annotated[str, AfterValidator(_endpoint)]
RecordSinks = Annotated[str, AfterValidator(checked_record_sinks)]
SecureAddress = Annotated[str, AfterValidator(_secure)]
Tags = Annotated[str, AfterValidator(_tags)]
CaBundle = Annotated[str, AfterValidator(_bundle)]
Namespaces = Annotated[str, AfterValidator(_namespaces)]
LowerCase = BeforeValidator(_lower)
