"""The ConfigMaps in which Karpenter had its settings before they were flags, as they stand in the worker's namespace.

They are the lowest source above defaults, so that a cluster that never moved its settings behaves as before.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError, Forbidden
from activities.kubernetes.resources import CONFIGMAPS
from tenon.apis.legacy.global_settings import LOGGING, SETTINGS, Settings, convert_settings, merged


@dataclass(frozen=True)
class Old:
    """What the ConfigMaps say, and what there is to tell of reading them."""

    settings: Settings = field(default_factory=Settings)
    found: Sequence[str] = ()
    """The names of those that are there."""
    unread: str = ""
    """Why they could not be read, in a sentence."""


async def read_config_maps(kube: Kube, namespace: str) -> Old:
    """The settings of the ConfigMaps in this namespace; a right that is missing is told, not raised.

    Raises:
        ApiError: the API server gives no answer, or no sensible one.
    """
    parts, found = [], []
    for name in (SETTINGS, LOGGING):
        try:
            manifest = await kube.get(CONFIGMAPS, name, namespace)
        except Forbidden:
            return Old(
                unread=f"The ConfigMaps {SETTINGS} and {LOGGING} in the namespace {namespace} are not read: the worker "
                "may not get them there (deploy/rbac.yaml has the rule)."
            )
        if manifest is not None:
            found.append(name)
            parts.append(convert_settings(manifest))
    return Old(merged(parts), found)


async def look(namespace: str, kubeconfig: str | None = None) -> Old:
    """The settings of the ConfigMaps in the cluster that the environment names; no cluster is told, not raised.

    Raises:
        ApiError: the cluster that is named gives no answer.
    """
    try:
        kube = await Kube.connect(kubeconfig)
    except ConfigError as error:
        return Old(unread=f"The ConfigMaps {SETTINGS} and {LOGGING} are not read, for no cluster is named: {error}")
    try:
        return await read_config_maps(kube, namespace)
    finally:
        await kube.close()


def look_apart(namespace: str) -> Old | str:
    """As `look`, in a process that ends with it; in place of an ApiError its sentence.

    The Kubernetes client keeps a hundred megabytes for as long as a process lasts, and the worker's parent never needs
    it again. To be called before there are threads, for the process is a fork of this one.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as apart:
        return apart.submit(_answer, namespace).result()


def _answer(namespace: str) -> Old | str:
    try:
        return asyncio.run(look(namespace))
    except ApiError as error:
        return str(error)
