"""The page of ``tenon playground``: what it reads from a form, plans and draws."""

from __future__ import annotations

import html
import re

import msgspec
import pytest

from cli.playing.built_in import EXAMPLES
from cli.playing.drawing import drawn_page
from cli.playing.form import MAX_MANIFESTS, FormError, request_of
from cli.playing.setup import PageRequest, Setup, decoded, encoded
from tenon.simulation.market import MarketChange
from tests.simulate.running import POOL, deployment

HOSTILE = "</textarea><script>alert(1)</script>"
LOAD = POOL + deployment("web", 2)


def page_of(setup: Setup, before: Setup | None = None) -> str:
    return drawn_page(PageRequest(setup, before))


def held_before(page: str) -> Setup:
    """The setup that the page sends with the next form."""
    (value,) = re.findall(r'name="before" value="([^"]*)"', page)
    return decoded(html.unescape(value))


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_has_a_plan_or_is_empty(name: str) -> None:
    example = EXAMPLES[name]
    page = page_of(Setup(example.manifests, disruption=example.disruption))
    assert ("There is no plan" in page) is (not example.files)
    if example.disruption:
        assert "Nodes that would be removed (" in page
    elif example.files:
        assert "New nodes (" in page


def test_a_form_becomes_a_setup_with_the_rows_that_change_something() -> None:
    question = request_of(
        {
            "manifests": "a: 1\r\nb: 2\r\n",
            "disruption": "on",
            "type-0": " m5.large ",
            "capacity-0": "spot",
            "zone-0": "us-west-2a",
            "price-0": "$0.5",
            "type-1": "c5.large",
            "type-2": "c5.*",
            "gone-2": "on",
            "price-3": "0.1",
        },
        [("more files.yaml", b"\xef\xbb\xbfc: 3\r\n")],
    )
    assert question.setup == Setup(
        "a: 1\nb: 2\n---\n# more files.yaml\nc: 3\n",
        (MarketChange("m5.large", "spot", "us-west-2a", "0.5"), MarketChange("c5.*", is_unavailable=True)),
        disruption=True,
    )
    assert question.before is None


def test_the_plan_to_compare_with_goes_with_the_form_unless_this_one_takes_its_place() -> None:
    before = Setup("größe: \u200b\n", (MarketChange("m5.large", price="+1%"),))
    fields = {"manifests": LOAD, "before": encoded(before)}
    assert request_of(fields | {"action": "plan"}, []).before == before
    assert request_of(fields | {"action": "start"}, []).before is None
    assert encoded(before).isascii()


@pytest.mark.parametrize(
    ("fields", "files", "sentence"),
    [
        ({"manifests": "x" * (MAX_MANIFESTS + 1)}, [], "larger than 4 MiB"),
        ({"manifests": "x", "before": "{"}, [], "load an example again"),
        ({"manifests": "x", "type-0": "m" * 201}, [], "Row 1 of prices and capacity"),
        ({}, [("a.yaml", b"\xff")], "a.yaml is not UTF-8 text: byte 0"),
    ],
)
def test_a_form_that_cannot_be_used_is_refused_in_a_sentence(
    fields: dict[str, str], files: list[tuple[str, bytes]], sentence: str
) -> None:
    with pytest.raises(FormError, match=re.escape(sentence)):
        request_of(fields, files)


def test_a_changed_price_is_compared_with_the_plan_before() -> None:
    before = Setup(LOAD)
    page = page_of(before)
    assert held_before(page) == before
    (bought_type, *_) = re.findall(r'name="type-0" value="([^"]+)"', page)
    page = page_of(Setup(LOAD, (MarketChange(bought_type, price="50"),)), before)
    assert "an hour more" in page
    assert "Pods that come to other nodes (2)" in page
    assert held_before(page) == before
    assert 'value="50"' in page, "the row is still there"


def test_faulty_manifests_are_named_and_the_plan_to_compare_with_stays() -> None:
    before = Setup(LOAD)
    page = page_of(Setup(LOAD.replace("replicas", "replicaz") + "\n---\nkind: Pod\n"), before)
    assert "manifests: document 3" in page
    assert held_before(page) == before
    first_text = Setup(LOAD)
    assert held_before(page_of(first_text, Setup(""))) == first_text, "nothing can be compared with an empty text"


def test_hostile_manifests_stay_texts() -> None:
    manifests = LOAD + f"\n# {HOSTILE}\n" + deployment("x", namespace=HOSTILE)
    change = MarketChange(f'"{HOSTILE}', price=HOSTILE)
    page = page_of(Setup(manifests, (change,)), Setup(LOAD))
    assert "<script" not in page
    assert page.count("<textarea") == page.count("</textarea>") == 1
    assert held_before(page) == Setup(LOAD)


def test_the_text_comes_back_as_it_was() -> None:
    manifests = "\n\n  # \u202e zero\u200bwidth <&\n" + LOAD
    page = page_of(Setup(manifests))
    (text,) = re.findall(r"<textarea[^>]*>\n(.*)</textarea>", page, re.DOTALL)
    assert html.unescape(text) == manifests


def test_a_refusal_is_drawn_without_planning_and_keeps_the_form() -> None:
    request = PageRequest(Setup(LOAD), Setup("a: 1"), refusal="The plan takes more than 1 s")
    page = drawn_page(request)
    assert "The plan takes more than 1 s" in page
    assert held_before(page) == Setup("a: 1")
    assert msgspec.json.decode(msgspec.json.encode(request), type=PageRequest) == request
