"""Tables that scroll sideways on a phone, instead of making the whole page wider.

A shadow at the side says where columns are out of sight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tenon.page.markup import Content, Markup, tag

TABLE_STYLE = """
.table{overflow-x:auto;margin:.4rem 0 1rem;background:linear-gradient(90deg,var(--page) 40%,transparent) left/2rem 100%
no-repeat local,linear-gradient(-90deg,var(--page) 40%,transparent) right/2rem 100% no-repeat local,
linear-gradient(90deg,var(--other),transparent) left/.6rem 100% no-repeat,
linear-gradient(-90deg,var(--other),transparent) right/.6rem 100% no-repeat}
table{border-collapse:collapse;min-width:min(100%,38rem);font-size:13px}
th,td{text-align:left;vertical-align:top;padding:.28rem .9rem .28rem 0;border-bottom:1px solid var(--line)}
th{color:var(--quiet);font-weight:500;white-space:nowrap} td.figure,th.figure{text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums} td{min-width:4rem;overflow-wrap:break-word}
.pair{display:flex;flex-wrap:wrap;gap:0 2.5rem;align-items:flex-start}.pair>div{flex:1 1 max-content;min-width:0}
@media (max-width:40rem){table{font-size:12px} th,td{padding-right:.5rem}
th{white-space:normal;overflow-wrap:normal} td{min-width:3rem}}
"""
MOST = 40


def side_by_side(*parts: Content) -> Markup:
    """Return parts next to each other where the page is wide enough for the longest lines of both."""
    return tag("div", (tag("div", part) for part in parts if part), class_="pair")


def table(
    titles: Sequence[str], rows: Iterable[Sequence[Content]], figures: Collection[int] = (), most: int = MOST
) -> Markup:
    """Return a table.

    Args:
        titles: of the columns.
        rows: a cell for each column. Those after `most` are only counted.
        figures: the numbers of the columns with figures, which are aligned at the right.
        most: how many rows are shown.
    """
    rows = list(rows)
    kinds = ["figure" if number in figures else None for number in range(len(titles))]
    head = tag("tr", (tag("th", title, class_=kind) for title, kind in zip(titles, kinds, strict=True)))
    body = [
        tag("tr", (tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True))) for row in rows[:most]
    ]
    more = tag("p", f"and {len(rows) - most} more", class_="quiet") if len(rows) > most else None
    return tag("div", tag("table", tag("thead", head), tag("tbody", body)), more, class_="table")
