"""The short stand-in for a pod in commands. A module of its own, so that the io process loads no scheduling engine."""

from __future__ import annotations

import hashlib


def pod_mark(uid: str) -> str:
    """Return a short stand-in for a pod's UID, because a command may name thousands of pods."""
    return hashlib.sha256(uid.encode()).hexdigest()[:8]
