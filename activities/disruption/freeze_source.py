"""Where passes get the DisruptionFreezes from, which may change while the worker runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenon.apis.disruptionfreeze import DisruptionFreeze

FreezeSource = Callable[[], Sequence[DisruptionFreeze]]
"""Returns all DisruptionFreezes of the cluster."""


def no_freezes() -> Sequence[DisruptionFreeze]:
    """Nothing is frozen."""
    return ()
