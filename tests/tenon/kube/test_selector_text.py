"""Label selectors as people type them: kubectl's syntax, and one sentence for what cannot be read."""

from __future__ import annotations

import pytest

from tenon.kube.selector_text import SelectorError, parse_selector

LABELS = {"team": "shop", "example.com/tier": "test", "zone": "b", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "team=shop",
        "team == shop , zone=b",
        "team!=web",
        "absent!=web",
        "example.com/tier in (prod, test)",
        "zone notin (a,c),team",
        "absent notin (a)",
        "!absent",
        "empty=",
    ],
)
def test_a_selector_selects_what_kubectl_would(text: str) -> None:
    assert parse_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text", ["team=web", "team=shop,zone=a", "team!=shop", "zone in (a,c)", "zone notin (b)", "absent", "!team"]
)
def test_a_selector_leaves_out_what_kubectl_would(text: str) -> None:
    assert not parse_selector(text).matches(LABELS)


@pytest.mark.parametrize("text", ["team=a=b", "team=shop,", "=x", "zone in a", "zone in (a,(b))", "a b", "x" * 5000])
def test_a_selector_that_cannot_be_read_is_one_sentence(text: str) -> None:
    with pytest.raises(SelectorError) as error:
        parse_selector(text)
    assert str(error.value).count("\n") == 0
    assert str(error.value).endswith(".")
