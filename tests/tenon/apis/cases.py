"""Every case of the tables."""

from __future__ import annotations

from tests.tenon.apis.class_cases import CLASS_CASES
from tests.tenon.apis.pool_cases import CLAIM_CASES, POOL_CASES

CASES = [*POOL_CASES, *CLAIM_CASES, *CLASS_CASES]
