"""The batch window that a worker has by default, for parts that are tested without its settings."""

from __future__ import annotations

from activities.provisioning.batching import BatchWindow

KARPENTERS_WINDOW = BatchWindow(idle=1.0, longest=10.0)
