"""What a node says of its life: a timeline that stays small, why it was bought, and how many pods run on it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.evolve import evolve
from tenon.messages.explanation import MAX_LINE, MAX_LINES, Explanation
from tenon.messages.launch import (
    PrepareLaunchResult,
)
from tenon.messages.node_steps import BindResult, ReleaseResult
from tenon.node import machine
from tenon.node.state import NodeState, Stage
from tenon.node.timeline import MAX_BYTES, MAX_ENTRIES, details, record, result_of
from tenon.sentences import for_temporal_ui
from tests.tenon.node.launched import NOW, REF, VIEW, at_live

OTHERS = "it was bought for 5, and the others run elsewhere, are on their way or are gone"


@given(st.lists(st.text(max_size=500), max_size=200))
def test_timeline_is_bounded_and_keeps_its_beginning(texts: list[str]) -> None:
    """The state stays small however long a life is; the first line is never lost."""
    state = NodeState(claim=REF)
    for text in texts:
        state = record(state, NOW, text)
    assert sum(len(entry.text.encode()) + 32 for entry in state.timeline) <= MAX_BYTES
    assert len(state.timeline) <= MAX_ENTRIES
    if texts:
        assert state.timeline[0].text[:50] == texts[0][:50]
    assert details(state).startswith("### NodeClaim default-x1")


@given(
    st.lists(st.text(max_size=500), max_size=200),
    st.lists(st.text(max_size=600), max_size=9).map(lambda lines: Explanation(others=tuple(lines)).bounded().lines),
)
def test_why_a_node_was_bought_and_its_timeline_share_their_bounds(texts: list[str], why: tuple[str, ...]) -> None:
    """64 lines and 8 KB together; the explanation is never dropped."""
    state = NodeState(claim=REF, explanation=why)
    for text in texts:
        state = record(state, NOW, text)
    lines = [*state.explanation, *(entry.text for entry in state.timeline)]
    assert len(lines) <= MAX_ENTRIES
    assert sum(len(line.encode()) + 32 for line in lines) <= MAX_BYTES
    assert state.explanation == why


@given(st.text(max_size=3000))
def test_an_explanation_that_somebody_edited_stays_small(text: str) -> None:
    lines = Explanation.of(text).lines
    assert len(lines) <= MAX_LINES
    assert all(len(line.encode()) <= MAX_LINE for line in lines)


def test_the_details_of_a_node_say_why_it_was_bought() -> None:
    view = VIEW.model_copy(
        update={"planned_pods": 5, "explanation": ["5 pods: default/web-1", "planned price: $0.1 an hour"]}
    )
    state = machine.apply(NodeState(claim=REF), PrepareLaunchResult(view=view, reason="x"), NOW)
    shown = details(state)
    why = "\n\n- 5 pods: default/web-1\n- planned price: $0.1 an hour\n"
    assert f"#### Why this NodeClaim was created{why}" in shown, "EC2 has launched nothing yet, and may refuse to"
    assert "- Pods: created for 5\n" in shown
    launched = details(evolve(state, instance=at_live().instance))
    assert f"#### Why this node was bought{why}" in launched
    assert "- Pods: bought for 5\n" in launched
    assert result_of(state, NOW).explanation == ["5 pods: default/web-1", "planned price: $0.1 an hour"]
    assert "Why" not in details(NodeState(claim=REF))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (BindResult(bound=5, planned=5, running=5), "5 pods run here, all that it was bought for"),
        (BindResult(bound=0, planned=5, running=5), "5 pods run here"),
        (BindResult(bound=5, planned=5, running=7), "7 pods run here"),
        (BindResult(bound=3, planned=5, for_scheduler=2, running=4), f"4 pods run here; {OTHERS}"),
        (BindResult(bound=0, planned=5, running=1), f"1 pod runs here; {OTHERS}"),
        (BindResult(bound=3, planned=5, for_scheduler=2), "3 of the 5 it was bought for run here"),
    ],
)
def test_a_node_says_how_many_pods_really_run_on_it(result: BindResult, text: str) -> None:
    """In the last case, nothing counted the others. The page is not written again when pods go, so it says what was."""
    state = NodeState(claim=REF, stage=Stage.BINDING, planned_pods=5, initialized=True)
    live = machine.apply(state, result, NOW)
    assert text in [entry.text for entry in live.timeline]
    then = text.replace(" runs here", " ran here").replace(" run here", " ran here")
    assert f"- Pods: when it became live, {then}\n" in details(live)


def test_the_last_line_of_a_life_names_who_still_holds_its_objects() -> None:
    """A finalizer of somebody else outlives Tenon's; the timeline says whose."""
    hold = "NodeClaim default-x1 is kept by finalizer example.com/audit"
    ended = machine.apply(at_live(stage=Stage.RELEASING), ReleaseResult(held_by=[hold]), NOW)
    assert ended.stage is Stage.ENDED
    assert hold in ended.timeline[-1].text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "Saves $0.6830 an hour, at least $0.0880 if EC2 launches",
            "Saves 0.6830 USD/h, at least 0.0880 USD if EC2 launches",
        ),
        ("planned price: $0.0960 an hour (m5.large)", "planned price: 0.0960 USD/h (m5.large)"),
        ("next is c5.large, at $0.085 an hour; it costs $2.", "next is c5.large, at 0.085 USD/h; it costs 2 USD."),
        ("for $1,234.5000 an hour.", "for 1,234.5000 USD/h."),
        ("costs $-0.5 an hour, and $HOME stays", "costs -0.5 USD/h, and $HOME stays"),
        ("gpu-name In [h100] (none has that label)", "gpu-name In h100 (none has that label)"),
    ],
)
def test_no_text_looks_like_a_formula_or_a_link_in_the_temporal_ui(text: str, shown: str) -> None:
    """Its Markdown takes what two dollar signs enclose for mathematics, and brackets before parentheses for a link."""
    assert for_temporal_ui(text) == shown
