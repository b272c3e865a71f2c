"""ARC's GetManagedResource, which the mock lacks: the zones that the cluster is shifted away from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from sandbox.ec2.errors import Answer, aws_error, json_answer

SERVICE = "arc-zonal-shift"
PATH = "/managedresources/"


class ZonalShifts:
    """The shifts of the cluster, by zone ID: started by hand, or by ARC itself."""

    def __init__(self) -> None:
        self.by_hand: set[str] = set()
        self.by_arc: set[str] = set()

    def clear(self) -> None:
        """Forget all, for a reset."""
        self.by_hand.clear()
        self.by_arc.clear()

    def answer(self, action: str, path: str, cluster: str) -> Answer:
        """Handle one call of ARC. Only the cluster can be shifted."""
        arn = unquote(path.removeprefix(PATH))
        if action != "GetManagedResource" or not arn.endswith(f":cluster/{cluster}"):
            return aws_error(SERVICE, 404, "ResourceNotFoundException", f"ARC has no resource {arn}")
        now = datetime.now(UTC)
        shifts: list[dict[str, Any]] = [
            {
                "appliedStatus": "APPLIED",
                "awayFrom": zone,
                "comment": "sandbox",
                "startTime": now.timestamp(),
                "expiryTime": (now + timedelta(hours=1)).timestamp(),
                "resourceIdentifier": arn,
                "zonalShiftId": f"shift-{zone}",
            }
            for zone in sorted(self.by_hand)
        ]
        autoshifts = [
            {"appliedStatus": "APPLIED", "awayFrom": zone, "startTime": now.timestamp()} for zone in sorted(self.by_arc)
        ]
        content = {"appliedWeights": {}, "arn": arn, "autoshifts": autoshifts, "zonalShifts": shifts, "name": cluster}
        return json_answer(200, content)
