"""How hypothesis looks for inputs: the same ones in every run, or with ``--fuzz TIMES`` new ones and many more.

A landing must not be refused for a fault that was there before it, and that one run in a hundred finds. So by default
every run tries the same inputs, and only a share of the examples that a test asks for: most faults of a change show in
the first few. Looking for more, and for new ones, is a task of its own, ``make fuzz``.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

# The time that an input takes depends on the machine and its load, and is no verdict on the code.
UNTIMED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}

settings.register_profile("same", settings(derandomize=True, database=None, **UNTIMED))
settings.register_profile("fuzz", settings(settings.get_profile("default"), derandomize=False, **UNTIMED))
# Loaded before any test module is, for their own settings take what they leave out from the profile of that moment.
settings.load_profile("same")
SHARE, LEAST, MOST = 0.2, 15, 30
"""The share of a test's examples that an ordinary run tries, the least number if the test asks for more, the most."""
COLLECTED_CONSTANTS = providers._get_local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz", type=int, metavar="TIMES", help="only tests by hypothesis, at random, with TIMES as many examples"
    )


def pytest_configure(config: pytest.Config) -> None:
    fuzzing = config.getoption("fuzz") is not None
    settings.load_profile("fuzz" if fuzzing else "same")
    # Hypothesis also draws numbers and texts that it reads in whatever modules are loaded by then. It has no setting
    # to leave that; with it, a test would be given other inputs when run alone, or after a change anywhere.
    providers._get_local_constants = COLLECTED_CONSTANTS if fuzzing else Constants


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    drawn = [item for item in items if is_hypothesis_test(getattr(item, "obj", None))]
    times = config.getoption("fuzz")
    for test in dict.fromkeys(_function(item) for item in drawn):
        # Hypothesis lets nobody change a test's settings from outside, so this is the attribute that it keeps them in.
        own: settings = test._hypothesis_internal_use_settings
        untimed = {*own.suppress_health_check, HealthCheck.too_slow}
        test._hypothesis_internal_use_settings = settings(
            own, max_examples=_examples(own.max_examples, times), suppress_health_check=untimed
        )
    if times is not None:
        config.hook.pytest_deselected(items=[item for item in items if item not in drawn])
        items[:] = drawn


def _examples(requests: int, times: int | None) -> int:
    return requests * times if times else min(requests, max(LEAST, min(MOST, round(requests * SHARE))))


def _function(item: Any) -> Any:
    """The test's function itself, where it is a method."""
    return getattr(item.obj, "__func__", item.obj)
