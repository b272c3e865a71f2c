"""The built-in catalogue of EC2 instance types that ``tenon simulate`` uses by default: us-west-2.

It is part of the package so that a first plan needs no AWS account. ``python -m cli.simulating.builtin FILE`` replaces
it with a catalogue in the format of ``--catalog``. Types are as EC2 describes them, and on-demand prices are the public
list prices. Spot prices are estimates, 0.3 to 0.6 of on-demand by family. Zone ids are those of one account, because
each account has its own.
"""

from __future__ import annotations

import gzip
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tenon.ec2.types.capacity import Item

PACKED = Path(__file__).parent / "data" / "ec2-us-west-2.json.gz"
DESCRIPTIONS = Path(__file__).parent / "data" / "ec2-descriptions.json.gz"
"""EC2's descriptions of the same types (``InstanceTypes`` of DescribeInstanceTypes)."""


def load() -> Any:
    """Return the document of the built-in catalogue."""
    return json.loads(gzip.decompress(PACKED.read_bytes()))


@cache
def descriptions() -> dict[str, Item]:
    """Return EC2's description of each type by name, from which an EC2NodeClass's figures follow as in the worker."""
    return {str(item["InstanceType"]): item for item in json.loads(gzip.decompress(DESCRIPTIONS.read_bytes()))}


def pack(document: Any) -> bytes:
    """Compress a catalogue. The same document always gives the same bytes."""
    types = sorted(document["instanceTypes"], key=lambda entry: str(entry["name"]))
    return gzip.compress(json.dumps({"instanceTypes": types}, separators=(",", ":")).encode(), 9, mtime=0)


if __name__ == "__main__":
    PACKED.parent.mkdir(exist_ok=True)
    PACKED.write_bytes(pack(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
