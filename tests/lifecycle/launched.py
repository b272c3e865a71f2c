"""A launched instance, and the claim that it was launched for."""

from __future__ import annotations

from datetime import UTC, datetime

from tenon.lifecycle.messages.base import ClaimRef
from tenon.lifecycle.messages.launch import (
    Instance,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
REF = ClaimRef(cluster="c", name="default-x1", uid="u1")
INSTANCE = Instance(
    id="i-1",
    provider_id="aws:///us-west-2a/i-1",
    instance_type="m5.large",
    zone="us-west-2a",
    capacity_type="spot",
    image_id="ami-1",
    price=0.04,
)
