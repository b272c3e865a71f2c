"""Draws the documents' pictures: ``python -m tests.tenon.report.pictures`` writes docs/report-*.png with Chromium."""

from __future__ import annotations

import subprocess
import tempfile
from datetime import timedelta
from pathlib import Path

from tenon.report.page import to_html
from tenon.report.report import report_on
from tests.tenon.report.stories import busy_cluster, busy_week

FOLDER = Path(__file__).parents[3] / "docs"
PICTURES = {
    "report-cost": ("light", 1120, 1420, ""),
    "report-nodes": ("dark", 1120, 1330, "nav,.tiles,p.quiet,section:nth-of-type(-n+2){display:none}"),
}
"""By name: colors, width, height, and the style that hides what is not in the picture."""
BLOCKED = (
    "Pods shop/cart-1 cannot be evicted: PodDisruptionBudget shop/cart allows no eviction\n"
    "relax PodDisruptionBudget shop/cart: `kubectl edit poddisruptionbudget -n shop cart`\n"
    "`tenon node force-drain web-0001d` deletes the pods at once, whatever protects them"
)


def page() -> str:
    """Return the page of the pictures."""
    live = busy_cluster().live(blocked_texts={"web-0001d": BLOCKED})
    return to_html(report_on(live, busy_week(), timedelta(days=7)))


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (colors, width, height, style) in PICTURES.items():
            file = Path(folder) / f"{name}.html"
            file.write_text(page().replace("</style>", f"{style}</style>"), encoding="utf-8")
            subprocess.run(
                [
                    "chromium",
                    "--headless=new",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--hide-scrollbars",
                    f"--user-data-dir={folder}/profile",
                    f"--blink-settings=preferredColorScheme={0 if colors == 'dark' else 1}",
                    f"--window-size={width},{height}",
                    f"--screenshot={FOLDER / name}.png",
                    file.as_uri(),
                ],
                check=True,
                capture_output=True,
                timeout=120,
            )


if __name__ == "__main__":
    main()
