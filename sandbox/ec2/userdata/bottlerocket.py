"""Bottlerocket: one TOML document, of which the API server of the host takes all or nothing."""

from __future__ import annotations

import tomllib
from typing import Any

from sandbox.ec2.userdata.bottlerocket_settings import SETTINGS
from sandbox.ec2.userdata.settings import BootFacts, KubeletSettings, UserDataRefusedError, make_taint, texts, unique

REQUIRED = ("cluster-name", "api-server", "cluster-certificate")


def read(text: str, facts: BootFacts) -> KubeletSettings:
    """Read user data as a Bottlerocket image does at its first boot.

    Raises:
        UserDataRefusedError: it is not TOML, or has a setting that does not exist or has another type.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserDataRefusedError(f"early-boot-config: the user data is not TOML: {error}") from error
    if "settings" not in content:
        raise UserDataRefusedError("early-boot-config: the user data has no table 'settings'")
    faults = list(SETTINGS("settings", content["settings"]))
    if faults:
        raise UserDataRefusedError(f"early-boot-config: {'; '.join(faults)}")
    return _settings(content["settings"], facts)


def _settings(settings: dict[str, Any], facts: BootFacts) -> KubeletSettings:
    kubernetes = settings.get("kubernetes") or {}
    missing = [name for name in REQUIRED if not kubernetes.get(name)]
    if missing:
        raise UserDataRefusedError(f"the kubelet does not start without settings.kubernetes.{missing[0]}")
    taints = []
    for key, values in (kubernetes.get("node-taints") or {}).items():
        for item in values if isinstance(values, list) else [values]:
            value, _, effect = item.rpartition(":")
            taints.append(make_taint(key, value, effect))
    commands = [
        command
        for entry in (settings.get("bootstrap-commands") or {}).values()
        for command in entry.get("commands", [])
    ]
    dns = kubernetes.get("cluster-dns-ip") or []
    return KubeletSettings(
        labels=texts(kubernetes.get("node-labels")),
        taints=unique(taints),
        max_pods=int(kubernetes.get("max-pods", facts.eni_pods)),
        kube_reserved=texts(kubernetes.get("kube-reserved")),
        system_reserved=texts(kubernetes.get("system-reserved")),
        eviction_hard=texts(kubernetes.get("eviction-hard")),
        cluster_dns=tuple(dns) if isinstance(dns, list) else (dns,),
        raid0=any(command[:3] == ["apiclient", "ephemeral-storage", "init"] for command in commands),
    )
