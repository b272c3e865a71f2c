"""Bottlerocket: the user data is one TOML document of settings, in which Tenon's keys override the user's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tenon.apis.json_object import field_at
from tenon.ec2.families.amis import (
    ACCELERATOR_COUNT,
    GPU_COUNT,
    MACHINE,
    ImageQuery,
    KubernetesVersion,
    with_device,
    without_devices,
)
from tenon.ec2.families.base import GIB, EbsVolume, Family
from tenon.ec2.families.bootstrap import Bootstrap
from tenon.errors import TenonError

_RAID0_COMMAND = "000-mount-instance-storage"
_BIND_DIRECTORIES = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_BINDS_BY_ITSELF = (1, 46, 0)
"""The first version that binds all directories which its packages name, if the command names none."""
_VERSION = re.compile(r"-v(\d+)\.(\d+)\.(\d+)(?:-|$)")
"""The version in the name of an image, as in `bottlerocket-aws-k8s-1.36-x86_64-v1.50.0-1a2b3c4d`."""
_KUBELET_SETTINGS = {
    "systemReserved": "system-reserved",
    "kubeReserved": "kube-reserved",
    "evictionHard": "eviction-hard",
    "evictionSoft": "eviction-soft",
    "evictionSoftGracePeriod": "eviction-soft-grace-period",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "imageGCHighThresholdPercent": "image-gc-high-threshold-percent",
    "imageGCLowThresholdPercent": "image-gc-low-threshold-percent",
    "cpuCFSQuota": "cpu-cfs-quota-enforced",
}
_AS_TEXT = frozenset({"imageGCHighThresholdPercent", "imageGCLowThresholdPercent"})


class BottlerocketSettingError(TenonError, ValueError):
    """Bottlerocket would refuse the user data, so that the node would never join, or the user's part has taints."""


def _images(kubernetes: KubernetesVersion, published: str) -> list[ImageQuery]:
    version = f"{kubernetes[0]}.{kubernetes[1]}"

    def path(arch: str, variant: str) -> str:
        root = f"/aws/service/bottlerocket/aws-k8s-{version}{variant}/{MACHINE[arch]}"
        return f"{root}/{published.removeprefix('v')}/image_id"

    return [
        ImageQuery(path("amd64", ""), without_devices("amd64")),
        ImageQuery(path("arm64", ""), without_devices("arm64")),
        ImageQuery(path("amd64", ""), with_device("amd64", ACCELERATOR_COUNT)),
        ImageQuery(path("amd64", "-nvidia"), with_device("amd64", GPU_COUNT)),
        ImageQuery(path("arm64", "-nvidia"), with_device("arm64", GPU_COUNT)),
    ]


def _user_data(node: Bootstrap) -> str:
    """Return the settings document.

    Raises:
        ValueError: the user's part is not TOML.
        BottlerocketSettingError: Bottlerocket does not take a kubelet setting of the class, or the user's part has
            taints.
    """
    import tomllib  # only launches of Bottlerocket nodes read it

    _check(node.kubelet)
    try:
        own = tomllib.loads(node.user_data)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"userData of a Bottlerocket class must be TOML: {error}") from error
    if field_at(own, "settings", "kubernetes", "node-taints"):
        raise BottlerocketSettingError(
            "userData has settings.kubernetes.node-taints, which plans do not know, so that pods would not fit on the "
            "nodes that are bought for them: remove it, and use the taints of the NodePool"
        )
    return to_toml(_merge(own, {"settings": _settings(node)}))


def _check(kubelet: Mapping[str, Any]) -> None:
    for field in ("systemReserved", "kubeReserved"):
        if "pid" in (kubelet.get(field) or {}):
            raise BottlerocketSettingError(
                f"spec.kubelet.{field}[pid]: Bottlerocket reserves cpu, memory and ephemeral-storage only: remove it"
            )
    for field in ("evictionHard", "evictionSoft"):
        for signal, threshold in (kubelet.get(field) or {}).items():
            text = str(threshold)
            if text.endswith("%") and float(text[:-1]) >= 100:
                raise BottlerocketSettingError(
                    f"spec.kubelet.{field}[{signal}]: Bottlerocket takes percentages below 100: lower it, or remove it"
                )


def _settings(node: Bootstrap) -> dict[str, Any]:
    taints: dict[str, list[str]] = {}
    for taint in node.taints:
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    kubernetes: dict[str, Any] = {
        "cluster-name": node.cluster.name,
        "api-server": node.cluster.endpoint,
        "cluster-certificate": node.cluster.ca_bundle,
        "node-labels": dict(node.labels),
        "node-taints": taints,
    }
    if node.cluster_dns:
        kubernetes["cluster-dns-ip"] = node.cluster_dns if len(node.cluster_dns) > 1 else node.cluster_dns[0]
    if node.max_pods is not None:
        kubernetes["max-pods"] = node.max_pods
    for name, setting in _KUBELET_SETTINGS.items():
        value = node.kubelet.get(name)
        if value is not None:
            kubernetes[setting] = str(value) if name in _AS_TEXT else value
    settings: dict[str, Any] = {"kubernetes": {key: value for key, value in kubernetes.items() if value != ""}}
    if node.raid0:
        options = [] if _binds_by_itself(node.image_name) else ["--dirs", *_BIND_DIRECTORIES]
        commands = [
            ["apiclient", "ephemeral-storage", "init"],
            ["apiclient", "ephemeral-storage", "bind", *options],
        ]
        settings["bootstrap-commands"] = {_RAID0_COMMAND: {"commands": commands, "essential": True, "mode": "always"}}
    return settings


def _binds_by_itself(image_name: str) -> bool:
    """False if the name does not say the version, because each version understands the directories."""
    match = _VERSION.search(image_name)
    return match is not None and tuple(map(int, match.groups())) >= _BINDS_BY_ITSELF


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        are_mappings = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if are_mappings else value
    return merged


def to_toml(document: Mapping[str, Any]) -> str:
    """Render a document of tables, lists and plain values as TOML, with sorted keys."""
    lines: list[str] = []
    _write_table((), document, lines)
    return "\n".join(lines).strip() + "\n"


def _write_table(path: tuple[str, ...], table: Mapping[str, Any], lines: list[str]) -> None:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (plain or not nested):
        lines += ["", f"[{'.'.join(map(_key, path))}]"]
    lines += [f"{_key(key)} = {_value(plain[key])}" for key in sorted(plain)]
    for key in sorted(nested):
        _write_table((*path, key), nested[key], lines)


def _key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "")
    return key if bare.isascii() and bare.isalnum() else _text(key)


def _text(text: str) -> str:
    """A TOML basic string. Like JSON, but it escapes the delete character and never writes surrogate pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(value[key])}' for key in sorted(value))} }}"
    return str(value)


BOTTLEROCKET = Family(
    name="Bottlerocket",
    os="linux",
    windows_build="",
    images=_images,
    write_user_data=_user_data,
    volumes=(EbsVolume("/dev/xvda", 6 * GIB, root=True), EbsVolume("/dev/xvdb", 20 * GIB)),
    ephemeral_device="/dev/xvdb",
    eni_limited_pods=True,
    eni_limited_overhead=False,
    sets_max_pods=True,
    needs_service_range=False,
    unbootable_types=frozenset(),
)
