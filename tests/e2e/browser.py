"""Temporal's UI in a real browser, used as a person uses it: by links, tabs, menus and dialogs.

The browser is Debian's Chromium. Every step waits until the page shows what comes next.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Locator, Page, async_playwright, expect

CHROMIUM = shutil.which("chromium")
"""The browser's path; None if the machine has none."""
WITHIN_MS = 60_000.0
"""How long the page may take to show what comes next, on a machine that does much else."""
PICTURES = "TENON_PICTURES"
"""The variable with the folder for pictures. `make pictures` sets it; tests make none."""
WIDTH, HEIGHT = 1360, 900
"""Pixels of the window."""
_OUTLINE = """(element, label) => {
    const box = element.getBoundingClientRect();
    const mark = document.createElement('div'), text = document.createElement('b');
    const dialog = element.closest('dialog'), origin = dialog ? dialog.getBoundingClientRect() : {x: 0, y: 0};
    const left = box.x - origin.x - 4, top = box.y - origin.y - 4;
    mark.style = 'position:fixed;z-index:99999;pointer-events:none;' +
        `left:${left}px;top:${top}px;width:${box.width + 8}px;height:${box.height + 8}px;` +
        'border:3px solid #d6336c;border-radius:8px;box-sizing:border-box';
    text.style = 'position:absolute;right:-30px;top:-14px;width:26px;height:26px;border-radius:13px;' +
        'background:#d6336c;color:white;font:bold 16px/26px sans-serif;text-align:center';
    text.textContent = label;
    mark.className = 'tenon-mark';
    mark.append(text);
    (dialog || document.body).append(mark);
}"""


class TemporalUiPage:
    """A tab of the browser that shows Temporal's UI."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def open(self, link: str) -> None:
        """Follow a link from outside."""
        await self.page.goto(link)

    async def click_workflow(self, workflow_id: str) -> None:
        """Click a workflow in a list, and wait for its page."""
        await self.page.get_by_role("link", name=workflow_id).first.click()
        await expect(self.page.get_by_role("heading", name=workflow_id)).to_be_visible()

    async def expect_on_page(self, *texts: str) -> None:
        """Wait until the open page shows these texts."""
        for text in texts:
            await expect(self.page.get_by_text(text).first).to_be_visible()

    async def expect_status(self, status: str) -> None:
        """Wait until the badge of the workflow says this, such as Completed."""
        await expect(self.page.get_by_text(status, exact=True).first).to_be_visible()

    async def open_metadata(self) -> None:
        """Click the tab with the current details."""
        await self.page.get_by_role("tab", name="User Metadata").click()

    async def expect_details(self, *texts: str) -> str:
        """Wait until the current details show these texts, and return all of them.

        The page asks the workflow once, when the tab is opened. If no worker answers in time, it stays empty, so it is
        opened again.
        """
        for is_last in (False, False, True):
            try:
                for text in texts:
                    await expect(self.details).to_contain_text(text, timeout=WITHIN_MS if is_last else WITHIN_MS / 3)
                break
            except AssertionError:
                if is_last:
                    raise
                await self.page.reload()
                await self.open_metadata()
        return await self.details.inner_text()

    @property
    def details(self) -> Locator:
        """The current details. The page has a frame of its own for each text in Markdown, and these come last."""
        return self.page.frame_locator("iframe[title=output]").last.locator("body")

    async def open_dialog(self, action: str, message: str) -> Locator:
        """Open the dialog of an action, such as Send a Signal, and show the list of messages."""
        await self.page.get_by_role("button", name="More Actions").first.click()
        await self.page.get_by_role("menuitem", name=action).click()
        dialog = self.page.locator("dialog[open]")
        await dialog.locator("[data-testid$=-select-button]").click()
        await dialog.get_by_role("option", name=message).scroll_into_view_if_needed()
        return dialog

    async def send(self, dialog: Locator, message: str, payload: Mapping[str, str]) -> None:
        """Choose the message in the open dialog, type its input, and submit it."""
        await dialog.get_by_role("option", name=message).click()
        await expect(dialog.locator("input[data-testid$=-select]")).to_have_value(message)
        text, editor = json.dumps(payload), dialog.get_by_role("textbox", name="Data")
        await editor.fill(text)
        await editor.blur()  # the editor formats its text then, and the button below it moves
        await expect(editor.locator(".cm-line")).to_have_count(len(payload) + 2)
        await dialog.get_by_test_id("confirm-modal-button").click()
        await expect(dialog).to_be_hidden()

    async def picture(self, name: str, *marked: Locator, height: int = HEIGHT) -> None:
        """Save a picture with numbered frames around these elements, if pictures are asked for."""
        folder = os.environ.get(PICTURES)
        if not folder:
            return
        await self.page.set_viewport_size({"width": WIDTH, "height": height})
        for number, locator in enumerate(marked, 1):
            await locator.evaluate(_OUTLINE, str(number))
        await self.page.screenshot(path=Path(folder) / f"temporal-ui-{name}.png")
        for frame in self.page.frames:
            await frame.evaluate("document.querySelectorAll('.tenon-mark').forEach(mark => mark.remove())")
        await self.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


@asynccontextmanager
async def browser() -> AsyncIterator[TemporalUiPage]:
    """Start the browser with one empty tab."""
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            page = await chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            page.set_default_timeout(WITHIN_MS)
            expect.set_options(timeout=WITHIN_MS)
            yield TemporalUiPage(page)
        finally:
            await chromium.close()
