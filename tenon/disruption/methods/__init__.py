"""The registry of disruption methods. To add one, add a module here, a line in `METHODS`, and its tests."""

from __future__ import annotations

from tenon.disruption.methods.base import Method
from tenon.disruption.methods.emptiness import Emptiness

METHODS: tuple[Method, ...] = (Emptiness(),)
"""In the order in which they choose. A node that one method takes is not offered to the next."""
