"""The settings that Bottlerocket publishes for its aws-k8s variants, with their types, and how it checks them.

Each setting has a check that returns what is wrong with a value. Names and types follow the settings reference of
bottlerocket.dev and the models of bottlerocket-settings-sdk.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any

Check = Callable[[str, Any], Iterator[str]]
"""Yields what is wrong with the value of the setting with this path."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_DURATION = r"(?=.)(?:(?:\d+\.)?\d+h)?(?:(?:\d+\.)?\d+m)?(?:(?:\d+\.)?\d+s)?(?:(?:\d+\.)?\d+ms)?"
_QUANTITY = r"[+-]?[0-9.]+(?:e?[0-9]*|(?:[EPTGMK]i?)?|[numk]?)"


def matching(pattern: str, subject: str) -> Check:
    """Text that matches a pattern as a whole."""
    compiled = re.compile(pattern)

    def check(path: str, value: Any) -> Iterator[str]:
        if not isinstance(value, str):
            yield f"{path} must be text, not {value!r}"
        elif not compiled.fullmatch(value):
            yield f"{path}: {value!r} is not {subject}"

    return check


def one_of(*choices: str) -> Check:
    """One of some words."""
    return matching("|".join(map(re.escape, choices)), f"one of {', '.join(choices)}")


def number(least: int, most: int) -> Check:
    """A whole number within bounds."""

    def check(path: str, value: Any) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int):
            yield f"{path} must be a number, not {value!r}"
        elif not least <= value <= most:
            yield f"{path}: {value} is not from {least} to {most}"

    return check


def any_of(*checks: Check) -> Check:
    """A value that passes one of the checks."""

    def check(path: str, value: Any) -> Iterator[str]:
        faults = [list(check(path, value)) for check in checks]
        if all(faults):
            yield from faults[0]

    return check


def listed(item: Check) -> Check:
    """A list."""

    def check(path: str, value: Any) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{path} must be a list, not {value!r}"
            return
        for place, first in enumerate(value):
            yield from item(f"{path}[{place}]", first)

    return check


def mapped(key: Check, item: Check) -> Check:
    """A table with names that the user chooses."""

    def check(path: str, value: Any) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield f"{path} must be a table, not {value!r}"
            return
        for name, first in value.items():
            yield from key(f"the name of {path}.{name}", name)
            yield from item(f"{path}.{name}", first)

    return check


def table(fields: Mapping[str, Check]) -> Check:
    """A table that has only these settings."""

    def check(path: str, value: Any) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield f"{path} must be a table, not {value!r}"
            return
        for name, item in value.items():
            if name in fields:
                yield from fields[name](f"{path}.{name}", item)
            else:
                yield f"unknown setting {path}.{name}"

    return check


def _flag(path: str, value: Any) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{path} must be true or false, not {value!r}"


def _base64(path: str, value: Any) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path} must be text, not {value!r}"
        return
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        yield f"{path} is not base64"


def _address(path: str, value: Any) -> Iterator[str]:
    try:
        if not isinstance(value, str):
            raise ValueError
        ip_address(value)
    except ValueError:
        yield f"{path}: {value!r} is not an IP address"


def _threshold(path: str, value: Any) -> Iterator[str]:
    """A quantity, or a percentage below 100."""
    if isinstance(value, str) and value.endswith("%"):
        if not re.fullmatch(r"\d{1,2}(?:\.\d+)?%", value):
            yield f"{path}: {value!r} is not a percentage from 0 % to less than 100 %"
    else:
        yield from QUANTITY(path, value)


def _percent(path: str, value: Any) -> Iterator[str]:
    """A whole percentage, as a number or as text."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not re.fullmatch(r"\d{1,3}", text) or int(text) > 100:
        yield f"{path}: {value!r} is not a whole number from 0 to 100"


TEXT = matching(r"(?s).*", "text")
LINE = matching(r"[^\n]*", "a single line")
NAME = matching(r"[A-Za-z0-9][A-Za-z0-9_-]*", "a name of letters, digits, - and _")
URL = matching(r"[^\s]+", "a URL")
QUANTITY = matching(_QUANTITY, "a quantity")
DURATION = matching(_DURATION, "a duration such as 30s")
LABEL_KEY = matching(rf"(?:[A-Za-z0-9.-]{{1,253}}/)?{_LABEL}", "the key of a label")
LABEL_VALUE = matching(rf"(?:{_LABEL})?", "the value of a label")
TAINT = matching(rf"(?:{_LABEL})?:[A-Za-z0-9]{{1,253}}", "a taint's value, a colon and an effect")
SIGNAL = one_of(
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
RESERVED = one_of("cpu", "memory", "ephemeral-storage")
INTEGER = number(-(2**31), 2**31 - 1)
COUNT = number(0, 2**32 - 1)

_CONTAINER = {"source": LINE, "user-data": _base64}

KUBERNETES: dict[str, Check] = {
    "allowed-unsafe-sysctls": listed(LINE),
    "api-server": URL,
    "authentication-mode": one_of("aws", "tls"),
    "bootstrap-token": matching(r"[a-z0-9]{6}\.[a-z0-9]{16}", "a bootstrap token"),
    "cloud-provider": one_of("aws", "external", '""', ""),
    "cluster-certificate": _base64,
    "cluster-dns-ip": any_of(_address, listed(_address)),
    "cluster-domain": LINE,
    "cluster-name": matching(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}", "the name of an EKS cluster"),
    "container-log-max-files": INTEGER,
    "container-log-max-size": QUANTITY,
    "container-log-max-workers": INTEGER,
    "container-log-monitor-interval": DURATION,
    "cpu-cfs-quota-enforced": _flag,
    "cpu-manager-policy": one_of("static", "Static", "none", "None"),
    "cpu-manager-policy-options": listed(one_of("full-pcpus-only")),
    "cpu-manager-reconcile-period": DURATION,
    "credential-providers": mapped(
        NAME,
        table(
            {
                "enabled": _flag,
                "image-patterns": listed(LINE),
                "cache-duration": DURATION,
                "environment": mapped(LINE, LINE),
            }
        ),
    ),
    "device-ownership-from-security-context": _flag,
    "event-burst": INTEGER,
    "event-qps": INTEGER,
    "eviction-hard": mapped(SIGNAL, _threshold),
    "eviction-max-pod-grace-period": number(0, 2**31 - 1),
    "eviction-soft": mapped(SIGNAL, _threshold),
    "eviction-soft-grace-period": mapped(SIGNAL, DURATION),
    "hostname-override": LINE,
    "hostname-override-source": one_of("private-dns-name", "instance-id"),
    "ids-per-pod": number(65536, 2**32 - 1),
    "image-gc-high-threshold-percent": _percent,
    "image-gc-low-threshold-percent": _percent,
    "image-maximum-gc-age": DURATION,
    "image-minimum-gc-age": DURATION,
    "kube-api-burst": INTEGER,
    "kube-api-qps": INTEGER,
    "kube-reserved": mapped(RESERVED, QUANTITY),
    "log-level": number(0, 255),
    "max-parallel-image-pulls": INTEGER,
    "max-pods": COUNT,
    "memory-manager-policy": one_of("Static", "static", "None", "none"),
    "memory-manager-reserved-memory": mapped(
        NAME,
        table({"enabled": _flag, "memory": QUANTITY, "hugepages-2Mi": QUANTITY, "hugepages-1Gi": QUANTITY}),
    ),
    "memory-swap-behavior": one_of("LimitedSwap", "NoSwap", "UnlimitedSwap"),
    "node-ip": _address,
    "node-labels": mapped(LABEL_KEY, LABEL_VALUE),
    "node-taints": mapped(LABEL_KEY, any_of(listed(TAINT), TAINT)),
    "pod-infra-container-image": LINE,
    "pod-pids-limit": number(-(2**63), 2**63 - 1),
    "provider-id": URL,
    "registry-burst": INTEGER,
    "registry-qps": INTEGER,
    "reserved-cpus": LINE,
    "seccomp-default": _flag,
    "server-certificate": _base64,
    "server-key": _base64,
    "server-tls-bootstrap": _flag,
    "shutdown-grace-period": DURATION,
    "shutdown-grace-period-for-critical-pods": DURATION,
    "single-process-oom-kill": _flag,
    "standalone-mode": _flag,
    "static-pods": mapped(NAME, table({"enabled": _flag, "manifest": _base64})),
    "static-pods-enabled": _flag,
    "system-reserved": mapped(RESERVED, QUANTITY),
    "topology-manager-policy": one_of("none", "restricted", "best-effort", "single-numa-node"),
    "topology-manager-scope": one_of("container", "pod"),
}

SETTINGS = table(
    {
        "autoscaling": table({"should-wait": _flag}),
        "aws": table({"config": _base64, "credentials": _base64, "profile": LINE, "region": LINE}),
        "boot": table(
            {
                "init-parameters": mapped(LINE, listed(LINE)),
                "kernel-parameters": mapped(LINE, listed(LINE)),
                "reboot-to-reconcile": _flag,
            }
        ),
        "bootstrap-commands": mapped(
            NAME,
            table({"commands": listed(listed(LINE)), "essential": _flag, "mode": one_of("off", "once", "always")}),
        ),
        "bootstrap-containers": mapped(
            NAME, table({**_CONTAINER, "essential": _flag, "mode": one_of("off", "once", "always")})
        ),
        "cloudformation": table({"logical-resource-id": LINE, "should-signal": _flag, "stack-name": LINE}),
        "container-registry": table(
            {
                "credentials": listed(
                    table(
                        {"registry": LINE, "username": LINE, "password": LINE, "auth": _base64, "identitytoken": LINE}
                    )
                ),
                "mirrors": any_of(
                    listed(table({"registry": LINE, "endpoint": listed(URL)})), mapped(LINE, listed(URL))
                ),
            }
        ),
        "container-runtime": table(
            {
                "concurrent-download-chunk-size": any_of(LINE, number(0, 2**63 - 1)),
                "enable-unprivileged-icmp": _flag,
                "enable-unprivileged-ports": _flag,
                "max-concurrent-downloads": INTEGER,
                "max-concurrent-unpacks": INTEGER,
                "max-container-log-line-size": INTEGER,
                "snapshotter": one_of("overlayfs", "soci"),
            }
        ),
        "container-runtime-plugins": table({"soci-snapshotter": mapped(LINE, lambda _path, _value: iter(()))}),
        "dns": table({"name-servers": listed(_address), "search-list": listed(LINE)}),
        "host-containers": mapped(
            NAME,
            table({**_CONTAINER, "enabled": _flag, "superpowered": _flag, "command": listed(LINE)}),
        ),
        "kernel": table(
            {
                "lockdown": one_of("none", "integrity", "confidentiality"),
                "modules": mapped(LINE, table({"allowed": _flag, "autoload": _flag})),
                "sysctl": mapped(LINE, TEXT),
            }
        ),
        "kubelet-device-plugins": table({"nvidia": mapped(LINE, lambda _path, _value: iter(()))}),
        "kubernetes": table(KUBERNETES),
        "metrics": table({"metrics-url": URL, "send-metrics": _flag, "service-checks": listed(LINE)}),
        "motd": TEXT,
        "network": table(
            {
                "hostname": LINE,
                "hosts": listed(listed(any_of(LINE, listed(LINE)))),
                "https-proxy": LINE,
                "no-proxy": listed(LINE),
            }
        ),
        "ntp": table({"time-servers": listed(LINE), "options": listed(LINE)}),
        "nvidia-container-runtime": mapped(LINE, any_of(_flag, LINE)),
        "oci-defaults": table(
            {"capabilities": mapped(LINE, _flag), "resource-limits": mapped(LINE, mapped(LINE, INTEGER))}
        ),
        "oci-hooks": table({"log4j-hotpatch-enabled": _flag}),
        "pki": mapped(NAME, table({"data": _base64, "trusted": _flag})),
        "updates": table(
            {
                "ignore-waves": _flag,
                "metadata-base-url": URL,
                "seed": COUNT,
                "targets-base-url": URL,
                "version-lock": LINE,
            }
        ),
    }
)
