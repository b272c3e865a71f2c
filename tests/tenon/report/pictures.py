"""Draws the documents' pictures: ``python -m tests.tenon.report.pictures`` writes docs/report-*.png with Chromium."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tenon.report.page import to_html
from tenon.report.report import report_on
from tests.page_pictures import draw
from tests.tenon.report.stories import busy_cluster, busy_week

FOLDER = Path(__file__).parents[3] / "docs"
PICTURES = {
    "report-cost": ("light", 1120, 1420, ""),
    "report-nodes": ("dark", 1120, 1330, "nav,.tiles,p.quiet,section:nth-of-type(-n+2){display:none}"),
    "report-phone": ("light", 400, 1500, ""),
    "report-wide": ("light", 1800, 1200, ""),
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
    for name, (colors, width, height, style) in PICTURES.items():
        html = page().replace("</style>", f"{style}</style>")
        draw(html, FOLDER / f"{name}.png", (width, height), dark=colors == "dark")


if __name__ == "__main__":
    main()
