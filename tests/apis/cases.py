"""Every case of the tables."""

from __future__ import annotations

from tests.apis.class_cases import CLASS_CASES
from tests.apis.pool_cases import CLAIM_CASES, POOL_CASES

CASES = [*POOL_CASES, *CLAIM_CASES, *CLASS_CASES]
