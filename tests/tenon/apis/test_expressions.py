"""Expressions of kubelet settings: what they mean, and what they may not cost (EC-15)."""

from __future__ import annotations

import pytest

from tenon.apis.expressions import MAX_LENGTH, ExpressionError, check, evaluate

M5_XLARGE: dict[str, int | str] = {
    "vcpus": 4,
    "memory_mib": 16384,
    "default_enis": 4,
    "ips_per_eni": 15,
    "max_pods": 58,
    "instance_type": "m5.xlarge",
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("((default_enis - 1) * (ips_per_eni - 1)) + 2", 44),
        ("min(250, ((default_enis - 1) * (ips_per_eni - 1)) * 16 + 2)", 250),
        ("max(60, vcpus * 30)", 120),
        ("11 * max_pods + 255", 893),
        ("max(100, memory_mib / 64)", 256),
        ("min(double(vcpus), 2.5) * 10.0", 25),
        ("max(vcpus, 2.5)", 4),
        ("7.9", 7),
        ("instance_type.startsWith('m5.') ? 110 : 50", 110),
        ("vcpus > 2 &&\n  memory_mib >= 16384 ? 1 : 0", 1),
        ("7 / 2 + 7 % 2", 4),
    ],
)
def test_ec15_what_an_expression_comes_to(text: str, value: int) -> None:
    assert evaluate(text, M5_XLARGE) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 +", "Syntax error: mismatched input '<EOF>' at character 4"),
        ("cores * 2", "undeclared reference to 'cores' at character 1"),
        ("vcpus * 2.5", "a whole number and a fraction do not mix: write double(vcpus) * 2.5"),
        ("instance_type", "it gives string, and a number is needed"),
        ("vcpus > 2", "it gives bool, and a number is needed"),
        ("1" * (MAX_LENGTH + 1), f"it has {MAX_LENGTH + 1} characters, and {MAX_LENGTH} are allowed"),
        ("(" * 500 + "1" + ")" * 500, "recursion limit exceeded"),
    ],
)
def test_ec15_what_is_no_expression_says_why_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        check(text)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def _nested(times: int) -> str:
    text = "1"
    for number in range(times):
        text = f"[1,1,1,1,1,1,1,1,1,1].map(x{number}, {text}).size()"
    return text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("memory_mib / (vcpus - 4)", "divide by zero"),
        ("9223372036854775807 + vcpus", "integer overflow"),
        ("1.0 / 0.0", "not a finite number"),
        ("vcpus - 5", "it gives -1, and a number from 0 to 2147483647 is needed"),
        ("memory_mib * 1000000", "it gives 1.6384e+10, and a number from 0 to 2147483647 is needed"),
        (_nested(6), "Iteration budget exceeded"),
    ],
)
def test_ec15_what_has_no_value_says_why_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        evaluate(text, M5_XLARGE)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
