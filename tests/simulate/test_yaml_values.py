"""YAML as Kubernetes reads it, and texts that were made to hurt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.manifests.yaml_scalars import UnreadableDocumentError
from tenon.manifests.yaml_values import read_documents
from tenon.manifests.yaml_writer import as_yaml

NUMBERS = st.text(st.sampled_from("+-._0178aAbBeEoOxXyYnN"), max_size=6)
"""Texts that Kubernetes may read as a number or a boolean, which are not those that PyYAML's YAML 1.1 knows."""


def texts(longest: int) -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), max_size=longest) | NUMBERS


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | texts(12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(5), inner, max_size=3),
    max_leaves=12,
)


def read(text: str) -> list[Any]:
    return [str(value) if isinstance(value, UnreadableDocumentError) else value for _, value in read_documents(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("0E0", 0.0),
        ("0o17", 15),
        ("1:30", "1:30"),
        ("12E", "12E"),
        ("100m", "100m"),
        ("1Gi", "1Gi"),
        ("1e3", 1000.0),
        ("0x1F", 31),
        ("0X1F", 31),
        ("-0B_11", -3),
        ("0_O17", 15),
        ("1e_3", 1000.0),
        ("+_1.5", 1.5),
        ("_1", "_1"),
        (".5_0", 0.5),
        ("1.5.0", "1.5.0"),
        ("017", 15),
        ("-3", -3),
        (".5", 0.5),
        ("yes", True),
        ("'yes'", "yes"),
        ("~", None),
        ("", None),
        ("+", "+"),
        ("!!str 5", "5"),
        ("{8080: a, true: b}", {"8080": "a", "true": "b"}),
        ("{a: &x {k: 1, l: 1}, b: {<<: *x, k: 2}}", {"a": {"k": 1, "l": 1}, "b": {"k": 2, "l": 1}}),
    ],
)
def test_values_are_those_of_kubernetes(text: str, value: Any) -> None:
    assert read(f"--- {text}\n") == [value]


BOMB = "a: &a [1,2,3,4,5,6,7,8,9,10]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE_BOMB = "a: &a {k: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{','.join(['*' + before] * 10)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 200_000, "nest deeper"),
        ("{a: " * 200_000, "nest deeper"),
        (BOMB, "expand to more than"),
        (MERGE_BOMB, "expand to more than"),
        ("a: &a [*a]", "refers to itself"),
        ("a: *b", "names nothing"),
        ("{a: 1, a: 2}", "key 'a' is given twice"),
        ("? [1]\n: 2", "not a plain text"),
        ("a: .inf", "is not a number"),
        ("a: 1e999", "too large"),
        ("a: " + "9" * 5000, "too large"),
        ("a: !!binary aGk=", "tag"),
        ("a: !!python/object:os.system x", "tag"),
        ("a: b: c", "line 1, column 5"),
        ("a: [b", "not YAML"),
        ("\x00", "not YAML"),
        ("<<: 3", "merges mappings"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(text: str, why: str) -> None:
    (sentence,) = read(text)
    assert why in sentence


def test_documents_are_counted_and_one_that_is_wrong_does_not_hide_the_next() -> None:
    documents = list(read_documents("a: 1\n---\n---\n{b: 1, b: 2}\n---\nc: 3\n"))
    assert [number for number, _ in documents] == [1, 2, 3, 4]
    assert documents[3][1] == {"c": 3}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (" 1a: v\nb: w\n", []),
        ("a: 1\n---\n  b: 2\nc: 3\n---\nd: 4\n", [{"a": 1}]),
        ("a: 1\n...\n%@\n", [{"a": 1}]),
        ("a: 1\n---\n{", [{"a": 1}]),
        ("a: 1\n---\n", [{"a": 1}, None]),
    ],
)
def test_the_beginning_of_what_is_not_yaml_is_no_document(text: str, values: list[Any]) -> None:
    documents = [value for _, value in read_documents(text)]
    assert [value for value in documents if not isinstance(value, UnreadableDocumentError)] == values
    assert len(documents) - len(values) == (0 if None in values else 1)


@given(PLAIN)
def test_what_was_written_is_read(value: Any) -> None:
    assert read(as_yaml(value)) == [value]


@given(st.text(st.sampled_from("ab:-[]{}&*!|>'\"#%@`?, \n\t0.1<~"), max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    list(read_documents(text))


@given(st.dictionaries(st.text(max_size=5), PLAIN))
def test_json_is_read_as_well(value: Any) -> None:
    assert read(json.dumps(value)) == [value]
    assert read(json.dumps(value, ensure_ascii=False, indent=2)) == [value]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"a": ' + "[" * 500 + "]" * 500 + "}", "nest deeper"),
        ('{"a": ' + "[" * 100_000, "nest deeper"),
        ('{"a": 1', "not YAML"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too large"),
    ],
)
def test_json_has_the_same_bounds(text: str, why: str) -> None:
    (sentence,) = read(text)
    assert why in sentence


def test_a_quoted_key_never_merges() -> None:
    assert read("'<<': 3") == [{"<<": 3}]
