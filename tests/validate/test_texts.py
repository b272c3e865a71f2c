"""Texts without quotes that YAML 1.1, and so kubectl, reads as something else: found, and quoted in the better line."""

from __future__ import annotations

import pytest

from tests.convert.running import convert, validate
from tests.validate.findings import faults, warnings
from tests.validate.slips import POOL

WORKLOAD = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations:
        karpenter.sh/do-not-disrupt: true
    spec:
      nodeSelector: {team: a}
      containers: [{name: web, image: web}]
"""


def _labelled(labels: str) -> str:
    return POOL.replace("  name: default\n", f"  name: default\n  labels: {labels}\n")


@pytest.mark.parametrize("written", ["y", "Y", "n", "N", "on", "Off", "yes", "NO", "1e3", "0x1F", "0o7", "1_000", ".5"])
def test_a_text_that_kubectl_reads_as_another_value_keeps_its_letters_in_quotes(written: str) -> None:
    better = f'labels: {{a: "{written}", b: c}}'
    if written == ".5":
        better = 'labels: {a: "0.5", b: c}'  # no label value begins with a dot
    ((line, path, reason, fixed),) = faults(_labelled(f"{{a: {written}, b: c}}"))
    assert (line, path, reason, fixed) == (5, "metadata.labels.a", "is not a string: put it in quotes", [better])
    assert faults(_labelled(better.removeprefix("labels: "))) == []


@pytest.mark.parametrize(("written", "read"), [("y", "true"), ("N", "false"), ("on", "true"), ("0x1F", "31")])
def test_a_key_that_kubectl_reads_as_another_one_is_warned_of(written: str, read: str) -> None:
    answer = validate("-f", "-", stdin=_labelled(f"{{{written}: a}}"))
    assert answer.status == 0
    assert answer.out.splitlines()[:-1] == [
        f"warning: standard input:5: metadata.labels.{written}: kubectl reads this name as {read}: put it in quotes",
        f'    write: labels: {{"{written}": a}}',
    ]
    assert warnings(_labelled(f'{{"{written}": a}}')) == []


def test_convert_writes_such_texts_in_quotes() -> None:
    text = _labelled('{a: "y", "n": b}').replace("karpenter.sh/v1\n", "karpenter.sh/v1beta1\n")
    text = text.replace("group: karpenter.k8s.aws", "apiVersion: karpenter.k8s.aws/v1beta1")
    converted = convert("-f", "-", stdin=text)
    assert converted.status == 0
    assert '    a: "y"\n    "n": b\n' in converted.out


def test_texts_of_other_kinds_are_checked_where_karpenter_reads_them() -> None:
    answer = validate("-f", "-", stdin=WORKLOAD)
    assert answer.status == 2
    assert answer.out.splitlines() == [
        "standard input:11: spec.template.metadata.annotations[karpenter.sh/do-not-disrupt]: "
        "is not a string: put it in quotes",
        '    write: karpenter.sh/do-not-disrupt: "true"',
        "0 objects checked, 1 fault, 0 warnings, 1 of other kinds skipped (Deployment)",
    ]
    assert faults(WORKLOAD.replace("disrupt: true", 'disrupt: "true"')) == []


@pytest.mark.parametrize(
    ("old", "new", "path", "better"),
    [
        ("{team: a}", "{team: 5}", "spec.template.spec.nodeSelector.team", 'nodeSelector: {team: "5"}'),
        (
            "{matchLabels: {app: web}}",
            "{matchLabels: {app: no}}",
            "spec.selector.matchLabels.app",
            'selector: {matchLabels: {app: "no"}}',
        ),
        ("labels: {app: web}", "labels: {app: y}", "spec.template.metadata.labels.app", 'labels: {app: "y"}'),
        ("name: web\nspec", "name: web\n  labels: {a: 1e3}\nspec", "metadata.labels.a", 'labels: {a: "1e3"}'),
    ],
)
def test_labels_and_selectors_of_workloads_are_texts(old: str, new: str, path: str, better: str) -> None:
    text = WORKLOAD.replace("disrupt: true", 'disrupt: "true"')
    assert old in text
    ((_, where, _, fixed),) = faults(text.replace(old, new))
    assert (where, fixed) == (path, [better])


def test_what_other_people_s_kinds_hold_is_theirs() -> None:
    text = WORKLOAD.replace("apps/v1", "example.com/v1")
    assert faults(text) == []
    assert len(faults(text.replace("  name: web\n", "  name: web\n  annotations: {a: true}\n"))) == 1
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {labels: 'a: 5'}\n"
    assert faults(config) == []


def test_faults_of_one_line_are_reported_in_their_order() -> None:
    labels = ", ".join(f"{letter}: on" for letter in "abcdefgh")
    assert [path[-1] for _, path, _, _ in faults(_labelled(f"{{{labels}}}"))] == list("abcdefgh")
