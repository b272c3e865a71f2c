"""Every field rule (NP-01 to NP-25, NP-V2 to NP-V8, NC-01, NC-08, EC-01 to EC-23), accepted and refused."""

from __future__ import annotations

import pytest

from tenon.apis.validation import parse
from tests.tenon.apis.case import Case
from tests.tenon.apis.cases import CASES


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    model, problems = parse(case.model, case.manifest)
    text = "; ".join(map(str, problems))
    if case.refusal is None:
        assert model is not None
        assert not problems, text
    else:
        assert problems, "was accepted"
        assert case.refusal in text


def test_names_are_unique() -> None:
    assert len({str(case) for case in CASES}) == len(CASES)
