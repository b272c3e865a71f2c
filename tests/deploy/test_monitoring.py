"""The chart's alerts and dashboards: they ask only for series that the worker exports, and each alert has a runbook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from sandbox import helm
from tests.declared_metrics import series

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
NAMED = ("--set", "settings.clusterName=sandbox")
ON = (*NAMED, "--set", "prometheusRule.enabled=true", "--set", "dashboards.enabled=true")
OF_PROMETHEUS = {"instance", "job", "namespace", "pod"}
"""Labels that Prometheus adds to each series."""
RULES = [
    rule for group in yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARDS = {
    path.stem: [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]
    for path in sorted((CHART / "files" / "dashboards").glob("*.json"))
}
OF_SHADOW = "tenon-shadow"
"""The dashboard of `tenon shadow`, which the chart installs instead of the worker's."""
PANELS = [panel for panels in DASHBOARDS.values() for panel in panels]
EXPRESSIONS = [(rule["alert"], rule["expr"]) for rule in RULES] + [
    (f"{dashboard}: {panel['title']} {target['refId']}", target["expr"])
    for dashboard, panels in DASHBOARDS.items()
    for panel in panels
    for target in panel["targets"]
]
LABEL = re.compile(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}")


def parsed(expression: str) -> promql.Expr:
    """Grafana replaces its variable by an interval before Prometheus sees the expression."""
    return promql.parse(expression.replace("$__rate_interval", "5m"))


def parts(node: promql.Expr) -> Iterator[promql.Expr]:
    exprs: list[promql.Expr] = []
    promql.walk(node, exprs.append)
    yield from exprs


def documents(*arguments: str) -> dict[str, dict[str, Any]]:
    safe_load_all = [item for item in yaml.safe_load_all(helm.template(CHART, *arguments)) if item]
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in safe_load_all}


@pytest.mark.parametrize(("name", "expression"), EXPRESSIONS, ids=[name for name, _ in EXPRESSIONS])
def test_each_expression_asks_for_series_that_exist(name: str, expression: str) -> None:
    names = series()
    selectors = [part for part in parts(parsed(expression)) if isinstance(part, promql.VectorSelector)]
    assert selectors
    for selector in selectors:
        assert selector.name in names
        matchers = {matcher.name for matcher in selector.matchers.matchers}
        assert matchers <= names[selector.name] | OF_PROMETHEUS, selector.name


@pytest.mark.parametrize(("name", "expression"), EXPRESSIONS, ids=[name for name, _ in EXPRESSIONS])
def test_each_expression_groups_by_labels_that_its_series_have(name: str, expression: str) -> None:
    names = series()
    for part in parts(parsed(expression)):
        if not isinstance(part, promql.AggregateExpr) or part.modifier is None:
            continue
        inside = [part for part in parts(part.expr) if isinstance(part, promql.VectorSelector)]
        possible = frozenset[str]().union(*(names[str(item.name)] for item in inside))
        assert set(part.modifier.labels) <= possible


def test_each_label_in_a_text_is_one_that_the_expression_keeps() -> None:
    texts = [(rule["expr"], rule["annotations"]["summary"]) for rule in RULES]
    texts += [(target["expr"], target["legendFormat"]) for panel in PANELS for target in panel["targets"]]
    used = 0
    for expression, text in texts:
        labels = {label for label in LABEL.findall(text) if label != "value"}
        expr = {
            label
            for part in parts(parsed(expression))
            if isinstance(part, promql.AggregateExpr) and part.modifier is not None
            for label in part.modifier.labels
        }
        assert labels <= expr, text
        used += len(labels)
    assert used


def test_each_alert_has_its_row_in_the_runbook() -> None:
    """In the order of the file, so that a reader finds a new one missing."""
    section = (ROOT / "docs" / "operations.md").read_text().partition("## What do I do when an alert fires?")[2]
    rows = re.findall(r"^\| (Tenon[\w, ]+) \| ", section.partition("\n## ")[0], re.MULTILINE)
    assert [name for row in rows for name in row.split(", ")] == [rule["alert"] for rule in RULES]


def test_each_alert_says_how_bad_it_is() -> None:
    assert {rule["labels"]["severity"] for rule in RULES} == {"critical", "warning", "info"}


def test_monitoring_is_off_by_default() -> None:
    kinds = {name.partition("/")[0] for name in documents(*NAMED)}
    assert kinds.isdisjoint({"PrometheusRule", "ServiceMonitor"})
    assert "ConfigMap/tenon-dashboards" not in documents(*NAMED)


def test_the_prometheus_rule_has_the_alerts_of_the_file() -> None:
    document = documents(*ON, "--set", "prometheusRule.additionalLabels.release=prometheus")["PrometheusRule/tenon"]
    assert document["metadata"]["labels"]["release"] == "prometheus"
    assert document["spec"] == yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())


def environment(*arguments: str) -> dict[str, str]:
    """The plain environment variables of the worker."""
    (container,) = documents(*NAMED, *arguments)["Deployment/tenon"]["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item["value"] for item in container["env"] if "value" in item}


def test_traces_are_sent_only_to_an_endpoint_that_is_set() -> None:
    assert not any(name.startswith("OTEL_") for name in environment())
    variables = environment("--set", "tracing.endpoint=http://collector:4318", "--set", "tracing.ratio=0.1")
    assert {name: value for name, value in variables.items() if name.startswith("OTEL_")} == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.1",
    }
    assert environment("--set", "tracing.endpoint=http://collector:4318")["OTEL_TRACES_SAMPLER_ARG"] == "1"


def test_grafanas_sidecar_finds_the_dashboards_of_what_the_chart_installs() -> None:
    document = documents(*ON, "--set", "dashboards.annotations.grafana_folder=Nodes")["ConfigMap/tenon-dashboards"]
    assert document["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert document["metadata"]["annotations"] == {"grafana_folder": "Nodes"}
    of_worker = {f"{name}.json" for name in DASHBOARDS if name != OF_SHADOW}
    assert {name: json.loads(text) for name, text in document["data"].items()} == {
        name: json.loads((CHART / "files" / "dashboards" / name).read_text()) for name in of_worker
    }
    document = documents(*ON, "--set", "shadow.enabled=true")["ConfigMap/tenon-dashboards"]
    assert set(document["data"]) == {f"{OF_SHADOW}.json"}


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_panels_have_ids_of_their_own_and_do_not_overlap(dashboard: str) -> None:
    panels = DASHBOARDS[dashboard]
    assert len({panel["id"] for panel in panels}) == len(panels)
    occupancy: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & occupancy, panel["title"]
        assert place["x"] + place["w"] <= 24
        occupancy |= cells
