"""``tenon convert`` on texts that no editor shows as they are: what comes out means the same, and converts again."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.convert.running import convert

NOT_ONE_LINE = ["\n\n x", "a\nb: c", "a\u2028b: c", "a\u2029b", "a\x85b", "\x85", "a\r\nb", "a\tb", "\x1b[31m"]
"""Texts with line breaks, as YAML knows them, and with what a terminal obeys."""
LIST = """apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: p, annotations: {karpenter.sh/do-not-evict: "true", karpenter.sh/do-not-disrupt: "true"}}
"""
USER_DATA = """apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s} # mine
spec:
  userData: %s
    #!/bin/bash
    echo 1"""


def as_json(text: str) -> list[object]:
    items: list[object] = convert("-f", "-", "-o", "json", stdin=text).document["items"]
    return items


def settled(text: str) -> str:
    """What a text is converted to; converted again it stays, and both forms of the output say the same."""
    output = convert("-f", "-", stdin=text)
    assert output.status == 0, output.err
    again = convert("-f", "-", stdin=output.out)
    assert (again.status, again.out) == (0, output.out)
    assert as_json(output.out) == as_json(text)
    return output.out


def template(name: str = "default", **spec: object) -> str:
    spec = {"instanceProfile": "nodes", "subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}, **spec}
    metadata = {"name": name}
    return json.dumps(
        {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": metadata, "spec": spec}
    )


@pytest.mark.parametrize("text", NOT_ONE_LINE)
def test_a_launch_template_cannot_end_the_comment_that_names_it(text: str) -> None:
    body = yaml.safe_load(settled(template(launchTemplate=text, securityGroupSelector=None, instanceProfile=None)))
    assert body["kind"] == "EC2NodeClass"
    assert "launchTemplate" not in body["spec"]


@pytest.mark.parametrize("text", NOT_ONE_LINE)
def test_a_name_of_several_lines_is_refused_on_one_line(text: str) -> None:
    answer = convert("-f", "-", stdin=template(text))
    assert (answer.status, answer.out, len(answer.lines)) == (2, "", 1)


@pytest.mark.parametrize("text", NOT_ONE_LINE)
def test_values_come_out_as_they_were(text: str) -> None:
    assert yaml.safe_load(settled(template(userData=text, tags={text: "x", "x": text})))["spec"]["tags"]["x"] == text


@pytest.mark.parametrize("text", NOT_ONE_LINE)
def test_a_namespace_cannot_end_the_comment_that_stands_for_settings(text: str) -> None:
    metadata = {"name": "karpenter-global-settings", "namespace": text}
    data = {"batchMaxDuration": "20s", "aws.clusterName": text}
    out = settled(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))
    assert list(yaml.safe_load_all(out)) in ([], [None])


def test_an_authors_comment_is_one_line_for_yaml_too() -> None:
    old = "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata:\n  name: a # pinned\u2029spec: {}\n"
    terms = "  subnetSelectorTerms: [{id: subnet-1}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n"
    settled(old.replace("spec: {}", "spec:") + "  amiFamily: AL2\n  role: r\n" + terms)


def test_what_stands_behind_the_end_of_the_last_document_is_not_printed_with_it() -> None:
    output = convert("-f", "-", stdin="kind: Service\napiVersion: v1\n...\n\n{a: 1}\nb: [\n")
    assert output.status == 2
    assert output.out == "kind: Service\napiVersion: v1\n...\n"


def test_a_note_on_an_object_of_a_list_is_reported_at_once() -> None:
    assert "# no longer needed: karpenter.sh/do-not-disrupt is set as well" in settled(LIST)


@pytest.mark.parametrize("style", ["|", "|-", "|+", "|2 # why", ">", ">+2"])
def test_a_text_that_ends_with_its_file_gains_no_line_break(style: str) -> None:
    text = USER_DATA % ("a", style)
    out = settled(text)
    assert yaml.safe_load(out) == yaml.safe_load(text)
    assert "# mine" in out
