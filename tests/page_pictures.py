"""Draws a page as a picture for the documents, with Debian's Chromium (apt-get install chromium)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path


def draw(html: str, picture: Path, size: tuple[int, int], *, dark: bool = False) -> None:
    """Write the picture of a page. ``size``: width and height in pixels."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(html, encoding="utf-8")
        subprocess.run(
            [
                "chromium",
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={folder}/profile",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                f"--window-size={size[0]},{size[1]}",
                f"--screenshot={picture}",
                file.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
