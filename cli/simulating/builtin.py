"""The built-in catalogue of EC2 instance types that ``tenon simulate`` uses by default: us-west-2.

It is part of the package so that a first plan needs no AWS account. ``python -m cli.simulating.builtin FILE`` replaces
it with a catalogue in the format of ``--catalog``. Types are as EC2 describes them, and on-demand prices are the public
list prices. Spot prices are estimates, 0.3 to 0.6 of on-demand by family. Zone ids are those of one account, because
each account has its own.
"""

from __future__ import annotations

import gzip
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from cli.simulating import ready_types
from tenon.ec2.types.capacity import Item
from tenon.scheduling.catalog import parse_catalog
from tenon.scheduling.model import InstanceType

REGION = "us-west-2"
PACKED = Path(__file__).parent / "data" / "ec2-us-west-2.json.gz"
READY = Path(__file__).parent / "data" / "ec2-us-west-2-types.json.gz"
"""The types of the catalogue as `ready_types` writes them."""
DESCRIPTIONS = Path(__file__).parent / "data" / "ec2-descriptions.json.gz"
"""EC2's descriptions of the same types (``InstanceTypes`` of DescribeInstanceTypes)."""


def load() -> Any:
    """Return the document of the built-in catalogue."""
    return msgspec.json.decode(gzip.decompress(PACKED.read_bytes()))


@cache
def types() -> list[InstanceType]:
    """Return the built-in instance types, which one process may plan with many times.

    A test validates them and compares them with the document, because to do it in each simulation would take a tenth of
    a second.
    """
    return ready_types.decoded(gzip.decompress(READY.read_bytes()))


@cache
def descriptions() -> dict[str, Item]:
    """Return EC2's description of each type by name, from which an EC2NodeClass's figures follow as in the worker."""
    items = msgspec.json.decode(gzip.decompress(DESCRIPTIONS.read_bytes()))
    return {str(item["InstanceType"]): item for item in items}


def pack(document: Any) -> bytes:
    """Compress a catalogue. The same document always gives the same bytes."""
    entries = sorted(document["instanceTypes"], key=lambda entry: str(entry["name"]))
    return _compressed(msgspec.json.encode({"instanceTypes": entries}))


def _compressed(text: bytes) -> bytes:
    return gzip.compress(text, 9, mtime=0)


if __name__ == "__main__":
    replacement = msgspec.json.decode(Path(sys.argv[1]).read_bytes())
    PACKED.parent.mkdir(exist_ok=True)
    PACKED.write_bytes(pack(replacement))
    READY.write_bytes(_compressed(ready_types.encoded(parse_catalog(replacement))))
