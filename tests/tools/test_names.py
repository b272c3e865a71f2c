"""The check that refuses names which do not say what they hold."""

import pytest

from tools import names


@pytest.mark.parametrize(
    "text",
    [
        "found = find()",
        "def wait(given): ...",
        "for one in claims: ...",
        "counts = [len(each) for each in groups]",
        "class Room:\n    there: int = 0",
        "class Memo:\n    def __init__(self):\n        self._known = {}",
        "if left := budget.take(): ...",
        "class Given: ...",
    ],
)
def test_a_bare_word_is_refused_wherever_a_name_is_bound(text: str) -> None:
    (fault,) = names.check({"tenon/module.py": text})
    assert fault.startswith("tenon/module.py:")
    assert fault.endswith("does not say what it holds: use a noun")


def test_a_participle_with_a_noun_is_a_name() -> None:
    assert names.check({"tenon/module.py": "known_types = found_claim.left(each_node)"}) == []
