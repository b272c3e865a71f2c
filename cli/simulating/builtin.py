"""The catalogue of EC2 instance types that ``tenon simulate`` uses when none is named: us-west-2.

It is packed into the package so that a first plan needs no AWS account: ``python -m cli.simulating.builtin FILE`` packs
a catalogue in the form of ``--catalog`` anew. Types are as EC2 describes them and on-demand prices are the public list
prices; spot prices are estimates, 0.3 to 0.6 of on-demand by family. The ids of zones are those of one account: each
has its own.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

PACKED = Path(__file__).parent / "data" / "ec2-us-west-2.json.gz"


def load() -> Any:
    """The document of the built-in catalogue."""
    return json.loads(gzip.decompress(PACKED.read_bytes()))


def pack(document: Any) -> bytes:
    """A catalogue as small as it gets; the same document gives the same bytes."""
    types = sorted(document["instanceTypes"], key=lambda entry: str(entry["name"]))
    return gzip.compress(json.dumps({"instanceTypes": types}, separators=(",", ":")).encode(), 9, mtime=0)


if __name__ == "__main__":
    PACKED.parent.mkdir(exist_ok=True)
    PACKED.write_bytes(pack(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
