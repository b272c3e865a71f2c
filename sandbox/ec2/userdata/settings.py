"""What a kubelet uses from user data, and the kubelet's own syntax for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenon.errors import TenonError

Taint = dict[str, str]


class UserDataRefusedError(TenonError, ValueError):
    """The machine's first boot refuses the user data, so that no kubelet starts. The message says why."""


@dataclass(frozen=True)
class KubeletSettings:
    """The kubelet settings in user data. Maps hold quantities as text."""

    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: dict[str, str] = field(default_factory=dict)
    system_reserved: dict[str, str] = field(default_factory=dict)
    eviction_hard: dict[str, str] = field(default_factory=dict)
    cluster_dns: tuple[str, ...] = ()
    raid0: bool = False
    """Whether instance-store disks are combined into the node's ephemeral storage."""


@dataclass(frozen=True)
class BootFacts:
    """What the instance's metadata service and its image say."""

    image: str
    """The name of the image."""
    instance_id: str
    instance_type: str
    zone: str
    region: str
    private_ip: str
    cpus: int
    eni_pods: int
    """How many pods the type's network interfaces have addresses for."""
    kubelet_version: str


def from_kubelet(config: Mapping[str, Any], flags: Iterable[str], *, raid0: bool = False) -> KubeletSettings:
    """The settings of a kubelet with this configuration (camelCase) and command line. A flag overrides its field.

    Raises:
        UserDataRefusedError: the kubelet would not start with these flags.
    """
    names = parse_flags(flags)
    taints = (
        [
            make_taint(
                register_with_taint["key"], register_with_taint.get("value") or "", register_with_taint["effect"]
            )
            for register_with_taint in config["registerWithTaints"]
        ]
        if (config.get("registerWithTaints"))
        else []
    )
    if "register-with-taints" in names:  # the last one replaces all others, and an empty one means none
        taints = parse_taints(names["register-with-taints"][-1])
    dns = list(config.get("clusterDNS") or [])
    if "cluster-dns" in names:
        dns = [address for text in names["cluster-dns"] for address in text.split(",")]
    return KubeletSettings(
        labels={name: value for text in names.get("node-labels", []) for name, value in parse_pairs(text).items()},
        taints=unique(taints),
        max_pods=_number("max-pods", names, config.get("maxPods")),
        pods_per_core=_number("pods-per-core", names, config.get("podsPerCore")),
        kube_reserved=_map("kube-reserved", "=", names, config.get("kubeReserved")),
        system_reserved=_map("system-reserved", "=", names, config.get("systemReserved")),
        eviction_hard=_map("eviction-hard", "<", names, config.get("evictionHard")),
        cluster_dns=tuple(dns),
        raid0=raid0,
    )


def parse_flags(flags: Iterable[str]) -> dict[str, list[str]]:
    """Parse a command line into the values of each flag, in order: ``--name=value``, ``--name value`` or ``--name``.

    Raises:
        UserDataRefusedError: there is an argument that is not a flag, or an open quotation mark.
    """
    try:
        words = shlex.split(" ".join(flags))
    except ValueError as error:
        raise UserDataRefusedError(f"the kubelet's arguments cannot be split into words: {error}") from error
    names: dict[str, list[str]] = {}
    rest = iter(words)
    waiting = next(rest, None)
    while waiting is not None:
        if not waiting.startswith("-"):
            raise UserDataRefusedError(f"the kubelet refuses the argument {waiting!r}")
        name, has_value, value = waiting.lstrip("-").partition("=")
        waiting = next(rest, None)
        if not has_value and waiting is not None and not waiting.startswith("-"):
            value, waiting = waiting, next(rest, None)
        names.setdefault(name.replace("_", "-"), []).append(value)
    return names


def parse_pairs(text: str, sign: str = "=") -> dict[str, str]:
    """Parse ``a=b,c=d`` into a map. A name without a value gets an empty one."""
    pairs = (item.partition(sign) for item in text.split(",") if item)
    return {name.strip(): value.strip() for name, _, value in pairs}


def parse_taints(text: str) -> list[Taint]:
    """Parse ``key=value:Effect`` or ``key:Effect``, separated by commas.

    Raises:
        UserDataRefusedError: an entry has no effect.
    """
    taints = []
    for item in (entry for entry in text.split(",") if entry):
        head, separator, effect = item.rpartition(":")
        if not separator:
            raise UserDataRefusedError(f"{item!r} is not a taint: write key=value:Effect")
        key, _, value = head.partition("=")
        taints.append(make_taint(key, value, effect))
    return taints


def make_taint(key: str, value: str, effect: str) -> Taint:
    """A taint as a Node holds it."""
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def unique(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Remove duplicates. A node holds one taint for each key and effect, and the first one wins."""
    result: dict[tuple[str, str], Taint] = {}
    for taint in taints:
        result.setdefault((taint["key"], taint["effect"]), taint)
    return tuple(result.values())


def texts(value: Mapping[Any, Any] | None) -> dict[str, str]:
    """A map with its values as text."""
    return {str(key): str(item) for key, item in (value or {}).items()}


def _number(flag: str, names: Mapping[str, list[str]], configured: Any) -> int | None:
    value = names[flag][-1] if flag in names else configured
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError) as error:
        raise UserDataRefusedError(f"the kubelet refuses --{flag}={value}: it is not a number") from error


def _map(flag: str, sign: str, names: Mapping[str, list[str]], configured: Any) -> dict[str, str]:
    return parse_pairs(",".join(names[flag]), sign) if flag in names else texts(configured)
