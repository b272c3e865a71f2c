"""Draws docs/shadow.png with Chromium: ``python -m tests.tenon.shadow.pictures REPORT.json``.

The report is one that ``tenon shadow -o json`` printed beside a real Karpenter.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tenon.shadow.page import to_html
from tests.page_pictures import draw

PICTURE = Path(__file__).parents[3] / "docs" / "shadow.png"
SIZE = (1000, 1010)


def main() -> None:
    """Write the picture."""
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    draw(to_html(report), PICTURE, SIZE)


if __name__ == "__main__":
    main()
