"""What `tenon node list --blocked` lists."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.e2e.conftest import Run


async def blocked_rows(tenon: Run) -> list[dict[str, Any]] | None:
    """The rows, or None if the command failed: only Temporal knows them, and a busy one may answer too late."""
    done = await asyncio.to_thread(tenon, "node", "list", "--blocked", "-o", "json")
    if done.returncode != 0:
        print(done.stderr)
        return None
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows
