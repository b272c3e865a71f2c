"""Reads the ConfigMaps that held Karpenter's settings before v1, from the worker's namespace.

They rank just above the defaults, so that a cluster that never moved its settings behaves as before.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from activities.kubernetes import credential_files
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError, ForbiddenError
from activities.kubernetes.resources import CONFIGMAPS
from tenon.apis.legacy.config_maps import LOGGING, SETTINGS
from tenon.apis.legacy.global_settings import Settings, convert_settings, merged


@dataclass(frozen=True)
class ConfigMapSettings:
    """The settings of the ConfigMaps, and what to report about reading them."""

    settings: Settings = field(default_factory=Settings)
    names: Sequence[str] = ()
    """Names of the ConfigMaps that exist."""
    unread: str = ""
    """One sentence that says why the ConfigMaps could not be read. Empty if they could."""


async def read_config_maps(kube: Kube, namespace: str) -> ConfigMapSettings:
    """Read the settings of the ConfigMaps in this namespace. If RBAC forbids it, the result says so in ``unread``.

    Raises:
        ApiError: the API server does not answer, or its answer makes no sense.
    """
    parts, read_maps = [], []
    for name in (SETTINGS, LOGGING):
        try:
            manifest = await kube.get(CONFIGMAPS, name, namespace)
        except ForbiddenError:
            return ConfigMapSettings(
                unread=f"The ConfigMaps {SETTINGS} and {LOGGING} in the namespace {namespace} are not read: the worker "
                "may not get them there (deploy/rbac.yaml has the rule)."
            )
        if manifest is not None:
            read_maps.append(name)
            parts.append(convert_settings(manifest))
    return ConfigMapSettings(merged(parts), read_maps)


async def read_cluster(namespace: str, kubeconfig: str | None = None) -> ConfigMapSettings:
    """Read the ConfigMaps of the cluster that the environment names. If it names none, the result says so in
    ``unread``.

    Raises:
        ApiError: the cluster does not answer.
    """
    try:
        kube = await Kube.connect(kubeconfig)
    except ConfigError as error:
        return ConfigMapSettings(
            unread=f"The ConfigMaps {SETTINGS} and {LOGGING} are not read, because no cluster is configured: {error}"
        )
    try:
        return await read_config_maps(kube, namespace)
    finally:
        await kube.close()


def read_in_child_process(namespace: str) -> ConfigMapSettings | str:
    """Run `read_cluster` in a child process. Returns the sentence of an ApiError instead of raising it.

    The Kubernetes client holds a hundred megabytes until its process ends, and the worker's parent needs it only here.
    Call this before the process starts any threads, because the child is a fork.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as apart:
        return apart.submit(_answer, namespace).result()


def _answer(namespace: str) -> ConfigMapSettings | str:
    try:
        return asyncio.run(read_cluster(namespace))
    except ApiError as error:
        return str(error)
    finally:
        credential_files.remove()
