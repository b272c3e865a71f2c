"""The one alias of a JSON object, which a Kubernetes object is before a model reads it."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
