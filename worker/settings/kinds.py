"""Types of settings other than plain numbers and strings, each with an error sentence of its own."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator

from tenon.apis.legacy.global_tags import default_tags
from tenon.provisioning.gates import AwsFeatureGates, FeatureGates, parse_aws_feature_gates, parse_feature_gates
from worker.settings.scheduler_document import scheduler_document

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


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
    names = [each.strip() for each in value.split(",")]
    if bad := next((each for each in names if not _NAMESPACE.fullmatch(each)), None):
        raise ValueError(f"{bad!r} is not the name of a namespace: write names with commas, such as kube-system,nodes")
    return ",".join(names)


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


Gates = Annotated[FeatureGates, BeforeValidator(_gates)]
AwsGates = Annotated[AwsFeatureGates, BeforeValidator(_aws_gates)]
Paths = Annotated[tuple[str, ...], BeforeValidator(_paths)]
Endpoint = Annotated[str, AfterValidator(_endpoint)]
SecureAddress = Annotated[str, AfterValidator(_secure)]
SchedulerDocument = Annotated[str, AfterValidator(scheduler_document)]
Tags = Annotated[str, AfterValidator(_tags)]
CaBundle = Annotated[str, AfterValidator(_bundle)]
Namespaces = Annotated[str, AfterValidator(_namespaces)]
LowerCase = BeforeValidator(_lower)
