"""The documents that tests read, and how GitHub names their headings."""

import re
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "benchmarks" / "README.md",
    ROOT / "deploy" / "README.md",
    *sorted((ROOT / "examples").glob("*/README.md")),
]


FENCED = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    return path.read_text()


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a document."""
    counts: Counter[str] = Counter()
    result = set()
    for heading in re.findall(r"^#{1,6} (.+)$", FENCED.sub("", text_of(document)), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        text = "".join(c for c in plain if c in "-_ " or unicodedata.category(c)[0] in "LN")
        slug = text.replace(" ", "-")
        result.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
        counts[slug] += 1
    return result
