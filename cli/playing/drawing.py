"""Draws the page: the form, what is wrong with its content, and the plan or what differs between two plans.

The page has no script. A change of the form is sent as a whole, with the setup of the plan to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cli.playing import form
from cli.playing.built_in import EXAMPLES, OWN_FILES
from cli.playing.planning import Outcome, outcome_of
from cli.playing.setup import PageRequest, Setup, encoded
from cli.simulating.files import read_catalogue_file
from tenon.apis.labels import ON_DEMAND, SPOT
from tenon.money import per_hour, price_text
from tenon.page.markup import Content, Markup, editor, joined, page, tag
from tenon.page.style import STYLE
from tenon.page.table import TABLE_STYLE
from tenon.scheduling.model import InstanceType
from tenon.simulation.html_difference import DIFFERENCE_STYLE, MOST_DRAWN, compared_content
from tenon.simulation.html_report import plan_content
from tenon.simulation.market import MarketChange
from tenon.simulation.report import PlanReport

SUGGESTED = 6
"""How many types of a plan have a row, in which only the change is missing."""
EMPTY_ROWS = 1
FORM_STYLE = """
a{color:var(--accent)} nav{display:flex;flex-wrap:wrap;gap:.4rem .5rem;margin:.8rem 0}
nav a,button{border:1px solid var(--line);border-radius:6px;padding:.4rem .7rem;background:var(--card);
color:var(--ink);text-decoration:none;font:inherit;line-height:1.3} nav a[aria-current]{border-color:var(--accent)}
nav a:hover,button:hover{border-color:var(--accent)} button{padding:.55rem 1rem;cursor:pointer}
button.main{background:var(--accent);border-color:var(--accent);color:var(--page);font-weight:600}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px} #plan:focus-visible{outline:none}
form{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:0 1.6rem}
.texts{display:flex;flex-direction:column}
form h2{margin:.6rem 0 .4rem} form label{display:block}
textarea{width:100%;flex:1 1 28rem;min-height:18rem;font:12px/1.45 ui-monospace,"DejaVu Sans Mono",monospace;
white-space:pre;overflow:auto;resize:vertical} textarea,input,select{border:1px solid var(--line);border-radius:6px;
background:var(--card);color:var(--ink);padding:.35rem .45rem} input,select{font:inherit;font-size:13px;min-width:0}
.row{display:grid;grid-template-columns:minmax(0,1.5fr) minmax(0,1.3fr) minmax(0,1.3fr);gap:.3rem;
padding:.4rem 0;border-top:1px solid var(--line)} .row .quiet{font-size:12px;align-self:center}
.row input,.row select{width:100%} .check{display:flex!important;gap:.4rem;align-items:center;font-size:13px}
.check input{width:1rem!important;height:1rem;flex:none} .actions{grid-column:1/-1;display:flex;flex-wrap:wrap;
gap:.6rem 1rem;align-items:center;margin:1rem 0;padding-top:.8rem;border-top:1px solid var(--line)}
.fault{border-left:3px solid var(--bad);padding:.1rem 0 .1rem .8rem;margin:1rem 0} .fault h2{margin:.2rem 0}
details{margin:.6rem 0} summary{cursor:pointer}
.skip{position:absolute;left:-99rem} .skip:focus{left:1rem;top:.5rem;background:var(--page);padding:.3rem}
@media (max-width:56rem){form{grid-template-columns:minmax(0,1fr)} textarea{flex:none;height:18rem}}
@media (max-width:40rem){textarea,input,select{font-size:16px} .row{grid-template-columns:repeat(2,minmax(0,1fr))}
.row .quiet{grid-area:1/2}}
"""
"""Phones zoom into a field whose text is smaller than 16 pixels."""


def drawn_page(request: PageRequest) -> str:
    """Plan, and return the page."""
    outcome = Outcome(faults=[request.refusal]) if request.refusal else outcome_of(request.setup)
    before = _before(request)
    reports = [result.report for result in (outcome, before) if result is not None and result.report is not None]
    is_useless = before is not None and before.report is None  # nothing can be compared with faulty manifests
    setup_before = request.setup if request.before is None or is_useless else request.before
    types, _ = read_catalogue_file(None)
    return page(
        _title(outcome),
        STYLE + TABLE_STYLE + DIFFERENCE_STYLE + FORM_STYLE,
        tag("a", "Skip to the plan", href="#plan", class_="skip"),
        tag("h1", "Tenon playground"),
        tag(
            "p",
            "What would Tenon do for these manifests? Change a NodePool, a price or what EC2 has, and see what "
            "differs. The page decides with the code of the worker, and reads no cluster and no AWS account. The "
            "instance types and on-demand prices are those of us-west-2; spot prices are estimates.",
            class_="quiet",
        ),
        _examples(request),
        _form(request.setup, setup_before, types, reports),
        tag(
            "section",
            _faults(outcome.faults),
            _notes(outcome.notes),
            _result(before.report if before is not None else None, outcome.report),
            id="plan",
            tabindex="-1",
        ),
    )


def _before(request: PageRequest) -> Outcome | None:
    if request.refusal or request.before is None or request.before == request.setup:
        return None
    return outcome_of(request.before)


def _title(outcome: Outcome) -> str:
    if outcome.report is None:
        return "No plan - Tenon playground"
    return f"{per_hour(outcome.report.document['totals']['pricePerHour'])} - Tenon playground"


def _examples(request: PageRequest) -> Markup:
    titles = {OWN_FILES: "Your files"} if request.own_files else {}
    titles |= {name: example.title for name, example in EXAMPLES.items()}
    links = (
        tag("a", title, href=f"/?example={name}", aria_current="page" if name == request.example else None)
        for name, title in titles.items()
    )
    return tag("nav", links, aria_label="Examples")


def _form(setup: Setup, before: Setup, types: Sequence[InstanceType], reports: Sequence[PlanReport]) -> Markup:
    return tag(
        "form",
        tag(
            "div",
            tag("h2", tag("label", "Manifests", for_=form.MANIFESTS)),
            editor(
                setup.manifests,
                id=form.MANIFESTS,
                name=form.MANIFESTS,
                spellcheck="false",
                autocomplete="off",
                autocapitalize="off",
            ),
            tag("label", "Add files: ", tag("input", type="file", name=form.FILES, multiple=True)),
            tag(
                "label",
                tag("input", type="checkbox", name=form.DISRUPTION, checked=setup.disruption),
                "Say which Nodes of the manifests Tenon would remove, and why the others stay",
                class_="check",
            ),
            class_="texts",
        ),
        tag(
            "div",
            tag("h2", "Prices and capacity"),
            tag(
                "p",
                "A new price in dollars an hour, such as 0.12, or a change, such as +10% or -0.05. "
                "A type may be a pattern: m5.* or *.",
                class_="quiet",
            ),
            (_row(number, change, types) for number, change in enumerate(_rows(setup, reports))),
            tag("datalist", (tag("option", value=kind.name) for kind in types), id="types"),
        ),
        tag(
            "div",
            tag("input", type="hidden", name=form.BEFORE, value=encoded(before)),
            tag("button", "Plan", name=form.ACTION, value=form.PLAN, class_="main"),
            tag("button", "Plan, and compare with this from now on", name=form.ACTION, value=form.START),
            class_="actions",
        ),
        method="post",
        action="/plan#plan",
        enctype="multipart/form-data",
    )


def _rows(setup: Setup, reports: Iterable[PlanReport]) -> list[MarketChange]:
    """Return the changes, then rows for the types that the plans buy, and empty ones."""
    changed = {(change.instance_type, change.capacity_type) for change in setup.changes}
    bought = dict.fromkeys(
        (node.instance_type, node.capacity_type)
        for report in reports
        for node in report.nodes
        if node.price is not None and (node.instance_type, node.capacity_type) not in changed
    )
    suggested = [MarketChange(*offering) for offering in list(bought)[:SUGGESTED]]
    rows = [*setup.changes, *suggested, *[MarketChange("")] * EMPTY_ROWS]
    return rows[: form.MAX_CHANGES]


def _row(number: int, change: MarketChange, types: Sequence[InstanceType]) -> Markup:
    zones = sorted({offering.zone for kind in types for offering in kind.offerings})
    return tag(
        "div",
        tag(
            "input",
            name=f"{form.TYPE}-{number}",
            value=change.instance_type,
            list="types",
            maxlength=form.MAX_FIELD,
            placeholder="another type",
            aria_label="Instance type",
            autocomplete="off",
        ),
        _choice(f"{form.CAPACITY}-{number}", "Capacity type", "both", (SPOT, ON_DEMAND), change.capacity_type),
        _choice(f"{form.ZONE}-{number}", "Zone", "all zones", zones, change.zone),
        tag("span", _list_price(change, types), class_="quiet"),
        tag(
            "input",
            name=f"{form.PRICE}-{number}",
            value=change.price,
            maxlength=form.MAX_FIELD,
            placeholder="new price",
            aria_label="New price",
            autocomplete="off",
        ),
        tag(
            "label",
            tag("input", type="checkbox", name=f"{form.GONE}-{number}", checked=change.is_unavailable),
            "no capacity",
            class_="check",
        ),
        class_="row",
        role="group",
        aria_label=f"Prices and capacity, row {number + 1}",
    )


def _choice(name: str, label: str, for_each: str, values: Iterable[str], chosen_value: str) -> Markup:
    options = [("", for_each), *((value, value) for value in values)]
    return tag(
        "select",
        (tag("option", text, value=value, selected=value == chosen_value) for value, text in options),
        name=name,
        aria_label=label,
    )


def _list_price(change: MarketChange, types: Sequence[InstanceType]) -> str:
    prices = sorted(_prices(change, types)) if change.instance_type else []
    if not prices:
        return ""
    lowest, highest = price_text(prices[0]), price_text(prices[-1])
    return f"list: {lowest}" if lowest == highest else f"list: {lowest} to {highest}"


def _prices(change: MarketChange, types: Iterable[InstanceType]) -> Iterator[float]:
    for kind in types:
        yield from (offering.price for offering in kind.offerings if change.has(kind.name, offering))


def _faults(faults: Sequence[str]) -> Content:
    if not faults:
        return None
    return tag(
        "div", tag("h2", "There is no plan"), (tag("p", fault) for fault in faults), class_="fault", role="alert"
    )


def _notes(notes: Sequence[str]) -> Content:
    if not notes:
        return None
    return tag("details", tag("summary", f"Notes ({len(notes)})"), (tag("p", note, class_="quiet") for note in notes))


def _result(before: PlanReport | None, now: PlanReport | None) -> Content:
    if now is None:
        return None
    if before is None:
        return joined(tag("h2", "The plan"), plan_content(now, MOST_DRAWN))
    return (tag("h2", "What differs"), compared_content(before, now))
