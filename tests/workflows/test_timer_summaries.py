"""What Temporal's UI shows next to timers, which it shows while they run, and after something else came first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenon.node import next_step, reboot_steps

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
TIMERS = ("wait_condition", "sleep", "serve", "Wait")
"""What starts a timer."""
AHEAD = re.compile(r"Then |If .* by then: ")


def texts_of(path: Path) -> Iterator[str]:
    """All sentences of calls that start timers, and of constants and tables of such sentences."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        sources: list[ast.expr] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in TIMERS:
            sources = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "summary":
            sources = [node.value]
        yield from (
            value.value for value in sources if isinstance(value, ast.Constant) and isinstance(value.value, str)
        )


SENTENCES = {
    *(text for path in WORKFLOWS.glob("*.py") for text in texts_of(path)),
    *(text for module in (next_step, reboot_steps) for text in texts_of(Path(str(module.__file__)))),
    *next_step._AGAIN.values(),
    *reboot_steps._AWAITED.values(),
    *(value for name, value in vars(next_step).items() if name.isupper() and type(value) is str),
}


def test_timers_have_summaries() -> None:
    assert len(SENTENCES) > 25


@pytest.mark.parametrize("text", sorted(SENTENCES))
def test_the_summary_of_a_timer_does_not_read_as_if_it_had_happened(text: str) -> None:
    assert AHEAD.match(text)
