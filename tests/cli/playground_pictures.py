"""Draws docs/playground-*.png with Chromium: ``python -m tests.cli.playground_pictures``."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp.test_utils import TestServer
from playwright.async_api import FloatRect, Page, expect

from cli.playing.plan_process import PlanProcess
from cli.playing.server import application
from tests.e2e.browser import browser

FOLDER = Path(__file__).parents[2] / "docs"
WIDTH, HEIGHT = 1200, 900
PLANS_HEIGHT = 660
"""How much of the plans is in the picture."""
MARGIN = 14


async def main() -> None:
    """Load the example of the shop, make a family of types dearer, and save two parts of the page."""
    async with TestServer(application(PlanProcess(300))) as server, browser() as tab:
        await tab.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        await tab.open(str(server.make_url("/?example=shop")))
        row = tab.page.get_by_role("group", name="Prices and capacity, row 1")
        await row.get_by_label("Instance type").fill("c6g.*")
        await row.get_by_label("New price").fill("+50%")
        await tab.page.get_by_role("button", name="Plan", exact=True).click()
        await expect(tab.page.get_by_role("heading", name="What differs")).to_be_visible()
        top, middle = [await _top(tab.page, heading) for heading in ("What differs", "Both plans")]
        for name, start, end in (("difference", top, middle), ("plans", middle, middle + PLANS_HEIGHT)):
            clip = FloatRect(x=0, y=start, width=WIDTH, height=end - start)
            await tab.page.screenshot(path=FOLDER / f"playground-{name}.png", full_page=True, clip=clip)


async def _top(page: Page, heading: str) -> float:
    """Where the part with this heading begins, in pixels from the top of the page."""
    box = await page.get_by_role("heading", name=heading).bounding_box()
    assert box is not None
    scrolled: float = await page.evaluate("scrollY")
    return box["y"] + scrolled - MARGIN


if __name__ == "__main__":
    asyncio.run(main())
