"""The files that the commands of a document write, for tests that check what users would apply."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

_WRITTEN = re.compile(r"^cat > (\S+) <<EOF\n(.*?)^EOF$", re.MULTILINE | re.DOTALL)


def written_files(document: Path, name: str) -> list[Any]:
    """Return the YAML content of each file of this name that a block of the document writes."""
    return [yaml.safe_load(content) for written, content in _WRITTEN.findall(document.read_text()) if written == name]
