"""Who runs a command, as the timelines of nodes and commands name them."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import Resource

SELF_SUBJECT_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", False, "SelfSubjectReview")


async def user_of_command(command: str = "tenon node") -> str:
    """Return who runs this command, for the node's timeline: the user that the API server sees, or USER@HOST."""
    with contextlib.suppress(ConfigError, ApiError, KeyError):
        kube = await Kube.connect()
        try:
            review = await kube.create(SELF_SUBJECT_REVIEWS, {})
            return f"{review['status']['userInfo']['username']} with {command}"
        finally:
            await kube.close()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = f"user {os.getuid()}"
    return f"{user}@{socket.gethostname()} with {command}"
