"""Reads user data as a machine's first boot does: EKS AL2023's NodeConfig (plain or in a MIME archive), and
Bottlerocket's TOML.
"""

from __future__ import annotations

import email
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

Taint = dict[str, str]


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
    raid0: bool = False
    """Whether instance-store disks are combined into the node's ephemeral storage."""


def read(text: str) -> KubeletSettings:
    """Read the settings in user data. Text in an unknown format has none: a machine with such user data does not join
    EKS by itself, but becomes a node if something else starts the kubelet.

    Raises:
        ValueError: the user data has a known format but is malformed, so the machine would fail to boot.
    """
    try:
        config: dict[str, Any] = {}
        for document in _node_configs(text):
            config = _merge(config, document.get("spec") or {})
        if config:
            return _from_nodeadm(config)
        if "[settings." in text:
            return _from_bottlerocket(tomllib.loads(text))
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"the user data cannot be read: {error}") from error
    return KubeletSettings()


def _node_configs(text: str) -> list[dict[str, Any]]:
    if text.lstrip().lower().startswith(("mime-version:", "content-type: multipart")):
        message = email.message_from_string(text.lstrip())
        parts = [part.get_payload(decode=True) for part in message.walk() if not part.is_multipart()]
        texts = [part.decode() for part in parts if isinstance(part, bytes)]
    else:
        texts = [text]
    documents = [document for one in texts if "kind: NodeConfig" in one for document in yaml.safe_load_all(one)]
    return [document for document in documents if isinstance(document, dict) and document.get("kind") == "NodeConfig"]


def _merge(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two documents. The later one wins key by key, but lists of flags are concatenated."""
    merged = dict(base)
    for key, value in more.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = _merge(known, value)
        elif key == "flags" and isinstance(known, list):
            merged[key] = [*known, *value]
        else:
            merged[key] = value
    return merged


def _from_nodeadm(spec: dict[str, Any]) -> KubeletSettings:
    kubelet = spec.get("kubelet") or {}
    config = kubelet.get("config") or {}
    labels: dict[str, str] = {}
    taints = [
        _taint(one["key"], str(one.get("value") or ""), one["effect"]) for one in config.get("registerWithTaints") or []
    ]
    for flag in kubelet.get("flags") or []:
        name, _, value = str(flag).partition("=")
        text = "".join(shlex.split(value))
        if name == "--node-labels":
            labels |= parse_labels(text)
        elif name == "--register-with-taints":
            taints += parse_taints(text)
    storage = (spec.get("instance") or {}).get("localStorage") or {}
    return KubeletSettings(
        labels=labels,
        taints=_unique(taints),
        max_pods=_number(config.get("maxPods")),
        pods_per_core=_number(config.get("podsPerCore")),
        kube_reserved=_texts(config.get("kubeReserved")),
        system_reserved=_texts(config.get("systemReserved")),
        eviction_hard=_texts(config.get("evictionHard")),
        raid0=storage.get("strategy") == "RAID0",
    )


def _from_bottlerocket(content: dict[str, Any]) -> KubeletSettings:
    kubernetes = (content.get("settings") or {}).get("kubernetes") or {}
    taints = []
    for key, values in (kubernetes.get("node-taints") or {}).items():
        for one in values if isinstance(values, list) else [values]:
            value, _, effect = str(one).rpartition(":")
            taints.append(_taint(key, value, effect))
    commands = (content.get("settings") or {}).get("bootstrap-commands") or {}
    return KubeletSettings(
        labels=_texts(kubernetes.get("node-labels")),
        taints=_unique(taints),
        max_pods=_number(kubernetes.get("max-pods")),
        pods_per_core=_number(kubernetes.get("pods-per-core")),
        kube_reserved=_texts(kubernetes.get("kube-reserved")),
        system_reserved=_texts(kubernetes.get("system-reserved")),
        eviction_hard=_texts(kubernetes.get("eviction-hard")),
        raid0=any("ephemeral-storage" in str(command) for command in commands.values()),
    )


def parse_labels(text: str) -> dict[str, str]:
    """Parse ``a=b,c=d`` into a map. A label without a value gets an empty one."""
    pairs = (one.partition("=") for one in text.split(",") if one)
    return {name: value for name, _, value in pairs}


def parse_taints(text: str) -> list[Taint]:
    """Parse ``key=value:Effect`` or ``key:Effect``, separated by commas.

    Raises:
        ValueError: an entry has no effect.
    """
    taints = []
    for one in (entry for entry in text.split(",") if entry):
        head, separator, effect = one.rpartition(":")
        if not separator:
            raise ValueError(f"{one!r} is not a taint: write key=value:Effect")
        key, _, value = head.partition("=")
        taints.append(_taint(key, value, effect))
    return taints


def _taint(key: str, value: str, effect: str) -> Taint:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _unique(taints: list[Taint]) -> tuple[Taint, ...]:
    """Remove duplicates. A node holds one taint for each key and effect, and the first one wins."""
    found: dict[tuple[str, str], Taint] = {}
    for taint in taints:
        found.setdefault((taint["key"], taint["effect"]), taint)
    return tuple(found.values())


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(item) for key, item in (value or {}).items()}


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
