"""The single alias for a JSON object, the form of a Kubernetes object before a model reads it."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
