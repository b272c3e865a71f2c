"""The report: its figures agree with each other, and the page shows what anyone may have named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenon.shadow.batches import BatchComparison, Bought, Purchases
from tenon.shadow.cluster import Disturbance
from tenon.shadow.disruptions import ModelCommand
from tenon.shadow.ledger import Ledger, Rates
from tenon.shadow.page import to_html
from tenon.shadow.report import Document, Risks, ShadowReport, document, verdict
from tenon.shadow.saved import MOST, ShadowTotals
from tests.tenon.shadow.models import NOW

SIX = Bought("m5.4xlarge", "us-west-2a", "on-demand", 1, 0.768)
TWO = Bought("m5.xlarge", "us-west-2a", "on-demand", 2, 0.192)


def comparison(theirs: Bought = SIX, ours: Bought = TWO, **more: Any) -> BatchComparison:
    return BatchComparison(NOW, 8, ["shop/Deployment/web x8"], Purchases([theirs]), Purchases([ours], **more))


def a_report(**more: Any) -> ShadowReport:
    ledger = Ledger()
    for minute in range(121):
        ledger.note(NOW + 60 * minute, Rates(3.0, 2.0, 4, 3, bound=1.5))
    totals = ShadowTotals(1, "uid", 3, Disturbance(5, 2, {"Empty": 2}), Disturbance(9, 3, {"Underutilized": 3}), ledger)
    totals.compared(comparison())
    totals.carried_out(ModelCommand(NOW, "Underutilized", ["m5.4xlarge"], ["m5.large"], 3, 0.672, ["because"]))
    rates = Rates(3.0, 2.0, 4, 3, bound=1.5)
    fields: dict[str, Any] = {"risks": Risks({}, [], []), "boot": 40.0, "drain": 30.0} | more
    return ShadowReport(at=NOW + 7200, totals=totals, rates=rates, **fields)


def test_the_figures_agree_with_each_other() -> None:
    report = document(a_report())
    cost = report["cost"]
    assert cost["savedDollars"] == pytest.approx(cost["karpenterDollars"] - cost["tenonDollars"])
    assert cost["savedDollars"] == pytest.approx(2.0)
    assert cost["savedShare"] == pytest.approx(1 / 3, abs=1e-4)
    assert cost["savedDollarsAMonth"] == pytest.approx(730.0)
    assert report["verdict"] == "In 2h, Tenon would have saved $2.0000 of $6.0000 (33.3%)"


def test_a_month_goes_on_as_it_did_so_far_whatever_this_moment_costs() -> None:
    """The prices of one moment may contradict the verdict above them."""
    report = document(replace(a_report(), rates=Rates(2.0, 3.0, 4, 3)))
    assert report["cost"]["savedDollarsAMonth"] == pytest.approx(730.0)


def test_a_model_that_is_dearer_is_not_said_to_save() -> None:
    ledger = Ledger()
    ledger.note(NOW, Rates(1.0, 2.0, 1, 1))
    ledger.note(NOW + 100, Rates(1.0, 2.0, 1, 1))
    totals = ShadowTotals(1, "", 0, Disturbance(), Disturbance(), ledger)
    report = ShadowReport(NOW, totals, Rates(1.0, 2.0, 1, 1), Risks({}, [], []), 40.0, 30.0)
    assert "would have paid $0.0278 more" in verdict(report)


def test_only_the_purchases_that_differ_most_are_kept() -> None:
    totals = ShadowTotals(1, "", 0, Disturbance(), Disturbance(), Ledger())
    for number in range(3 * MOST):
        totals.compared(comparison(Bought("m5.4xlarge", "a", "on-demand", 1, 0.4 + number)))
    totals.compared(comparison(unplaced={"default/web": "no"}, unplaced_count=1))
    totals.compared(comparison(SIX, SIX))
    assert len(totals.differing) == MOST
    assert totals.differing[0].ours.unplaced_count == 1
    assert totals.differing[1].difference == pytest.approx(0.4 + 3 * MOST - 1 - TWO.price * 2)
    assert (totals.batches, totals.unlike) == (3 * MOST + 2, 1)


def test_the_page_shows_the_cost_the_decisions_and_the_risks() -> None:
    risks = Risks({"shop/<b>web</b>": "no type has 500 CPU"}, ["NodePool old: spec.weight: is odd"], [])
    html = to_html(document(a_report(risks=risks, notes=["Prices are estimates"])))
    for text in ("lower bound", "m5.4xlarge", "no type has 500 CPU", "Prices are estimates", "pods moved by Karpenter"):
        assert text in html
    assert "<b>web</b>" not in html
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_the_page_of_a_report_without_samples_says_so() -> None:
    totals = ShadowTotals(1, "", 0, Disturbance(), Disturbance(), Ledger())
    report: Document = document(ShadowReport(NOW, totals, Rates(0.0, 0.0, 0, 0), Risks({}, [], []), 40.0, 30.0))
    assert "needs two minutes" in to_html(report)
    assert report["verdict"].startswith("Nothing has cost anything yet")
    report = document(ShadowReport(NOW, totals, Rates(1.0, 1.0, 2, 2), Risks({}, [], []), 40.0, 30.0))
    assert report["verdict"].startswith("The model has just begun")
    risks = Risks({}, [], ["NodePool a: its nodeClassRef names no EC2NodeClass"])
    report = document(ShadowReport(NOW, totals, Rates(0.0, 0.0, 0, 0), risks, 40.0, 30.0))
    assert report["verdict"].startswith("Nothing is compared yet")


def test_purchases_that_cost_the_same_are_counted_and_not_listed() -> None:
    totals = ShadowTotals(1, "", 0, Disturbance(), Disturbance(), Ledger())
    totals.compared(comparison(SIX, SIX))
    assert (totals.batches, totals.differing) == (1, [])
