"""What Temporal's UI says of a sweep."""

from __future__ import annotations

from tenon.garbage_collection import page
from tenon.messages.garbage_collection import Figures, GarbageCollectionResult


def test_a_sweep_names_what_it_ended_not_only_how_much() -> None:
    result = GarbageCollectionResult(
        figures={"claim_without_instance": Figures(findings=1, ended=1)},
        ended=["web-1: The sweep signaled a workflow that the instance of its NodeClaim is gone"],
        held_back=["too many instances have no NodeClaim"],
    )
    shown = page.current_details(result)
    assert "- claim without instance: 1 found, 1 ended or repaired, 0 failed, 0 put off" in shown
    assert "- web-1: The sweep signaled a workflow" in shown
    assert "- too many instances have no NodeClaim" in shown


def test_a_sweep_that_found_nothing_says_so() -> None:
    assert page.current_details(GarbageCollectionResult()) == "Nothing was lost."
    assert list(page.first_input("c").model_dump())[:2] == ["headline", "why"]
