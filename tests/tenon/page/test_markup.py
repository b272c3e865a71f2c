"""HTML in which every text is escaped."""

from __future__ import annotations

import pytest

from tenon.page.markup import Markup, editor, escaped, joined, page, tag, with_code

HOSTILE = "</style><script>alert(\"1\")</script><img src=x onerror='x'>&amp;"


def test_texts_are_escaped_in_contents_and_attributes() -> None:
    element = tag("p", HOSTILE, [HOSTILE, (HOSTILE, None)], title=HOSTILE)
    assert element.count("<") == 2
    assert "script>" not in element.replace("script&gt;", "")
    assert element.count('"') == 2, "an attribute cannot be ended"
    assert "&amp;amp;" in element, "what looks escaped is a text, too"


def test_an_element_inside_an_element_is_not_escaped_again() -> None:
    assert tag("p", tag("b", "<"), " & ", class_="x") == '<p class="x"><b>&lt;</b> &amp; </p>'
    assert joined("<", tag("br")) == "&lt;<br>"


def test_attributes_are_written_as_html_has_them() -> None:
    assert tag("svg", viewBox="0 0 1 1", stroke_width=1.5, hidden=True, x=None, y=False) == (
        '<svg viewBox="0 0 1 1" stroke-width="1.5" hidden></svg>'
    )


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x85", "\u202e", "\u2066", "\u200b", "\ufeff", "\ud800"])
def test_characters_that_hide_or_reverse_texts_are_replaced(character: str) -> None:
    text = escaped(f"shop/{character}api")
    assert text == "shop/\ufffdapi"
    assert text.encode("utf-8")


def test_names_in_other_scripts_stay_as_they_are() -> None:
    assert escaped("größe 日本 עברית\n\t") == "größe 日本 עברית\n\t"


def test_a_text_is_never_taken_for_markup() -> None:
    assert isinstance(tag("b", "x"), Markup)
    assert not isinstance(str(tag("b", "x")) + "", Markup)
    assert joined(str(tag("b", "x")) + "") == "&lt;b&gt;x&lt;/b&gt;"


def test_commands_between_backticks_are_code() -> None:
    assert with_code("run `kubectl <x>` now") == "run <code>kubectl &lt;x&gt;</code> now"
    assert with_code("no end `of it") == "no end <code>of it</code>"


def test_a_field_holds_its_text_as_it_is_because_browsers_send_it_back() -> None:
    field = editor("\n\u200b</textarea>&amp;\ud800", name="x")
    assert field == '<textarea name="x">\n\n\u200b&lt;/textarea&gt;&amp;amp;\ufffd</textarea>'
    assert tag("input", value=HOSTILE).count("<") == 1


def test_a_page_is_one_document_for_phones_too() -> None:
    document = page("<title>", "b{color:red}", tag("p", "x"))
    assert document.startswith('<!doctype html>\n<html lang="en">')
    assert "width=device-width" in document
    assert "<title>&lt;title&gt;</title>" in document
    assert "default-src &#x27;none&#x27;; style-src &#x27;unsafe-inline&#x27;" in document, "browsers load nothing"
    assert "<style>b{color:red}</style>" in document
