"""What the view shows now, and what a key changes: pure, so that tests press keys without a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from cli.fleet_view.layout import short_name
from tenon.fleet.order import FilterError, GroupBy, SortKey, parse_filter
from tenon.fleet.rows import NodeRow
from tenon.sentences import counted

UP, DOWN, PAGE_UP, PAGE_DOWN, HOME, END = "up", "down", "page-up", "page-down", "home", "end"
ENTER, ESCAPE, BACKSPACE, INTERRUPT = "enter", "escape", "backspace", "interrupt"
PAGE = 10
"""Rows that a page key moves."""
SORT_KEYS = {
    "c": SortKey.CPU,
    "m": SortKey.MEMORY,
    "$": SortKey.PRICE,
    "a": SortKey.AGE,
    "n": SortKey.NAME,
    "p": SortKey.PODS,
}
MAX_REASON = 200
_MOVES = {UP: -1, DOWN: 1, PAGE_UP: -PAGE, PAGE_DOWN: PAGE, HOME: -(10**9), END: 10**9}


class Mode(Enum):
    """What keys mean now."""

    LIST = auto()
    FILTER = auto()
    """Keys are text of the filter."""
    CONFIRM = auto()
    """A question waits for y or n."""
    REASON = auto()
    """Keys are text of the reason, for the node's timeline and events."""
    DETAIL = auto()
    """One node is shown."""


class Verb(Enum):
    """What a key asks for that the view cannot do alone."""

    QUIT = auto()
    SHOW = auto()
    DRAIN = auto()
    KEEP = auto()


@dataclass(frozen=True, slots=True)
class Wish:
    """A wish of the person at the terminal. ``claim``: the NodeClaim that it is about."""

    verb: Verb
    claim: str = ""
    name: str = ""
    reason: str = ""
    """Why the person wants it; may be empty."""


@dataclass(frozen=True, slots=True)
class ViewState:
    """Sort, grouping, filter, cursor and mode."""

    sort: SortKey = SortKey.NAME
    is_reversed: bool = False
    group: GroupBy = GroupBy.NONE
    filter: str = ""
    selected: str = ""
    """The name of the row with the cursor. The cursor stays on its node when the order changes."""
    last_position: int = 0
    """Where the cursor was, for when its node is gone."""
    mode: Mode = Mode.LIST
    message: str = ""
    question: str = ""
    pending_wish: Wish | None = None
    """The wish that the question, or the reason, is about."""
    reason: str = ""
    """The reason as far as it is typed."""
    detail: Sequence[str] = ()
    scroll: int = 0

    def position(self, rows: Sequence[NodeRow]) -> int:
        """Return the index of the row with the cursor."""
        for number, row in enumerate(rows):
            if row.name == self.selected:
                return number
        return max(0, min(self.last_position, len(rows) - 1))


def press(state: ViewState, key: str, rows: Sequence[NodeRow]) -> tuple[ViewState, Wish | None]:
    """Return the state after a key, and what the key asks for.

    Args:
        state: the state before.
        key: a character, or the name of a key.
        rows: the rows that are shown, in order.
    """
    if key == INTERRUPT:
        return state, Wish(Verb.QUIT)
    if state.mode is Mode.FILTER:
        return _type(state, key), None
    state = replace(state, message="")
    if state.mode is Mode.CONFIRM:
        if key in ("y", "Y"):
            return replace(state, mode=Mode.REASON, question=""), None
        return replace(_without_question(state), message="Nothing was done."), None
    if state.mode is Mode.REASON:
        return _type_reason(state, key)
    if key == "q":
        return state, Wish(Verb.QUIT)
    if key in ("d", "k", ENTER, "s") and rows:
        return _of_node(state, key, rows[state.position(rows)])
    if state.mode is Mode.DETAIL:
        if key in _MOVES:
            return replace(state, scroll=max(0, min(state.scroll + _MOVES[key], len(state.detail) - 1))), None
        return (replace(state, mode=Mode.LIST, detail=(), scroll=0) if key == ESCAPE else state), None
    return _in_list(state, key, rows), None


def _without_question(state: ViewState) -> ViewState:
    mode = Mode.DETAIL if state.detail else Mode.LIST
    return replace(state, mode=mode, question="", pending_wish=None, reason="")


def _type_reason(state: ViewState, key: str) -> tuple[ViewState, Wish | None]:
    """Change the text of the reason. Enter sends the wish, also without a reason; Escape gives it up."""
    if key == ENTER and state.pending_wish is not None:
        return _without_question(state), replace(state.pending_wish, reason=state.reason.strip())
    if key == ESCAPE:
        return replace(_without_question(state), message="Nothing was done."), None
    return replace(state, reason=_typed(state.reason, key)[:MAX_REASON]), None


def _typed(text: str, key: str) -> str:
    if key == BACKSPACE:
        return text[:-1]
    return text + key if len(key) == 1 and key.isprintable() else text


def _in_list(state: ViewState, key: str, rows: Sequence[NodeRow]) -> ViewState:
    if key in SORT_KEYS:
        sort = SORT_KEYS[key]
        return replace(state, sort=sort, is_reversed=sort is state.sort and not state.is_reversed)
    if key in _MOVES and rows:
        position = max(0, min(state.position(rows) + _MOVES[key], len(rows) - 1))
        return replace(state, selected=rows[position].name, last_position=position)
    if key == "g":
        return replace(state, group=state.group.following)
    if key == "/":
        return replace(state, mode=Mode.FILTER)
    if key == ESCAPE:
        return replace(state, filter="")
    return state


def _of_node(state: ViewState, key: str, row: NodeRow) -> tuple[ViewState, Wish | None]:
    state = replace(state, selected=row.name)
    if key in (ENTER, "s"):
        return state, Wish(Verb.SHOW, row.claim, row.name)
    if not row.claim:
        return replace(state, message=f"{row.name} has no NodeClaim, so Tenon does not control it."), None
    if key == "d":
        pods = counted(row.pods, "pod")
        question, verb = f"Drain {short_name(row.name)} with {pods}, within PodDisruptionBudgets?", Verb.DRAIN
    else:
        question, verb = f"Keep {short_name(row.name)} for 24 hours: no disruption, no expiry?", Verb.KEEP
    return replace(state, mode=Mode.CONFIRM, question=question, pending_wish=Wish(verb, row.claim, row.name)), None


def _type(state: ViewState, key: str) -> ViewState:
    """Change the text of the filter. A filter that cannot be read yet, such as `cpu<`, does not filter."""
    if key == ENTER:
        if why := why_unreadable(state.filter):
            return replace(state, mode=Mode.LIST, filter="", message=why)
        return replace(state, mode=Mode.LIST)
    if key == ESCAPE:
        return replace(state, mode=Mode.LIST, filter="")
    return replace(state, filter=_typed(state.filter, key))


def why_unreadable(text: str) -> str:
    """Return what is wrong with a filter; empty if it can be read."""
    try:
        parse_filter(text)
    except FilterError as error:
        return str(error)
    return ""
