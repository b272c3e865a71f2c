"""The better line is what was meant, or nothing: never a value that only makes the fault go away."""

from __future__ import annotations

import pytest

from tests.convert.running import validate
from tests.validate.findings import BETA, PROVISIONER, faults
from tests.validate.slips import CLASS, POOL

COUNTED = POOL.replace("karpenter.sh/capacity-type", "karpenter.k8s.aws/instance-cpu")


def _found(text: str, path: str) -> tuple[str, list[str]]:
    """(reason, better lines) of the fault of this field."""
    reasons = {where: (reason, fixed) for _, where, reason, fixed in faults(text)}
    assert path in reasons, reasons
    return reasons[path]


def _old(*lines: str) -> str:
    return PROVISIONER.replace("spec:\n", "spec:\n" + "".join(f"  {line}\n" for line in lines))


def _budget(nodes: str) -> str:
    return POOL.replace("  template:", f"  disruption: {{budgets: [{{nodes: {nodes}}}]}}\n  template:")


def test_nothing_is_guessed_for_an_empty_text() -> None:
    text = POOL.replace("kind: EC2NodeClass, name: default", 'kind: EC2NodeClass, name: ""')
    assert _found(text, "spec.template.spec.nodeClassRef.name") == ("is empty", [])
    provider = "provider: {subnetSelector: {a: b}, securityGroupSelector: {a: b}, amiSelector: {aws-ids: ''}}"
    text = PROVISIONER.replace("providerRef: {name: default}", provider)
    assert _found(text, "spec.provider.amiSelector[aws-ids]")[1] == []


def test_letters_are_made_small_only_where_the_value_itself_is_refused() -> None:
    provider = "provider: {launchTemplate: x, amiFamily: Bottlerocket, subnetSelector: {a: b}}"
    text = PROVISIONER.replace("providerRef: {name: default}", provider)
    assert _found(text, "spec.provider.amiFamily") == ("is not combined with launchTemplate", [])
    assert _found(CLASS.replace("al2023@", "AL2023@"), "spec.amiSelectorTerms[0].alias")[1] == [
        "amiSelectorTerms: [{alias: al2023@latest}]"
    ]


@pytest.mark.parametrize(
    ("field", "written", "better"),
    [
        ("ttlSecondsAfterEmpty", "30s", "30"),
        ("ttlSecondsAfterEmpty", "5m", "300"),
        ("ttlSecondsUntilExpired", "30d", "2592000"),
        ("ttlSecondsUntilExpired", '"3600"', "3600"),
    ],
)
def test_leg_seconds_are_counted(field: str, written: str, better: str) -> None:
    reason, fixed = _found(_old(f"{field}: {written}"), f"spec.{field}")
    assert fixed == [f"{field}: {better}"]
    assert reason.startswith("is not a whole number")
    assert ("quotes" in reason) is (written == '"3600"')


@pytest.mark.parametrize(
    ("line", "path", "reason"),
    [
        ("weight: 99999999999999999999", "spec.weight", "does not fit into 64 bits: write a smaller number"),
        ("limits: {cpu: 99999999999999999999}", "spec.limits.cpu", "does not fit into 64 bits: write a smaller number"),
        ("weight: 1.5", "spec.weight", "is not a whole number"),
        ('weight: "5"', "spec.weight", "is not a whole number: write it without quotes"),
    ],
)
def test_quotes_are_blamed_only_where_they_are_the_cause(line: str, path: str, reason: str) -> None:
    assert _found(POOL.replace("spec:\n", f"spec:\n  {line}\n", 1), path)[0] == reason


def test_durations_are_no_numbers_where_none_is_counted_in_seconds() -> None:
    assert _found(_old("weight: 30s"), "spec.weight") == ("is not a whole number", [])


@pytest.mark.parametrize(
    ("written", "better"),
    [("100", "100Gi"), ("20GiB", "20Gi"), ("100GB", "100G"), ('"50"', "50Gi"), ("1tb", "1T"), ("20 Gi", "20Gi")],
)
def test_sizes_of_volumes_get_their_unit(written: str, better: str) -> None:
    line = f"  blockDeviceMappings: [{{deviceName: /dev/xvda, ebs: {{volumeSize: {written}}}}}]\n"
    reason, fixed = _found(CLASS + line, "spec.blockDeviceMappings[0].ebs.volumeSize")
    assert fixed == [line.strip().replace(written, better)]
    assert "such as 100Gi" in reason
    assert len(reason) < 120
    assert faults(CLASS + line.replace(written, better)) == []


def test_v1b18_a_reserved_label_is_named_with_its_line() -> None:
    labels = "    metadata:\n      labels:\n        team: a\n        kubernetes.io/x: z\n"
    text = BETA.replace("  template:\n", f"  template:\n{labels}")
    reason = "label kubernetes.io/x is not allowed in v1beta1: the domain kubernetes.io is reserved"
    assert faults(text) == [(12, "spec.template.metadata.labels[kubernetes.io/x]", reason, [])]
    term = "{key: kubernetes.io/x, operator: Exists}"
    ((line, path, message, _),) = faults(BETA.replace("requirements: []", f"requirements:\n      - {term}"))
    assert (line, path, message) == (12, "spec.template.spec.requirements[0].key", reason)


def test_a_reserved_label_is_reported_once_in_v1() -> None:
    text = POOL.replace("  template:\n", "  template:\n    metadata: {labels: {karpenter.sh/foo: a}}\n")
    assert [(line, path) for line, path, _, _ in faults(text)] == [
        (7, "spec.template.metadata.labels[karpenter.sh/foo]")
    ]


def test_limits_of_a_provisioner_are_pointed_to_where_they_belong() -> None:
    reason, _ = _found(_old("limits: {cpu: 10}"), "spec.limits.cpu")
    assert reason == "is not a field here: did you mean limits.resources.cpu?"


@pytest.mark.parametrize(
    ("text", "path", "better"),
    [
        (_budget("10 %"), "spec.disruption.budgets[0].nodes", "disruption: {budgets: [{nodes: 10%}]}"),
        (COUNTED.replace('["spot"]', "4"), "spec.template.spec.requirements[0].values", 'values: ["4"]'),
        (POOL.replace(": In", ': "="'), "spec.template.spec.requirements[0].operator", "operator: In"),
        (POOL.replace(": In", ": '!='"), "spec.template.spec.requirements[0].operator", "operator: NotIn"),
    ],
)
def test_what_was_meant_is_written(text: str, path: str, better: str) -> None:
    assert _found(text, path)[1] == [better]


def test_a_grace_that_never_ends_is_left_out() -> None:
    text = POOL.replace("      nodeClassRef", "      terminationGracePeriod: Never\n      nodeClassRef")
    reason, fixed = _found(text, "spec.template.spec.terminationGracePeriod")
    assert reason == "'Never' is not accepted here: leave the field out, which means never"
    assert fixed == []


def test_a_tab_is_called_a_tab() -> None:
    """As one of the articles misprints it."""
    text = f"{CLASS}---\n" + POOL.replace("\n          operator", "\n\t  operator")
    assert faults(text) == [
        (21, "", "not YAML: a tab, where YAML wants spaces", ["          operator: In"]),
    ]
    assert "    write:           operator: In\n" in validate("-f", "-", stdin=text).out
    assert faults(text.replace("\t  operator", "          operator")) == []
    assert "not YAML" in faults("kind: [")[0][2]


def test_how_deep_a_tab_was_meant_is_not_guessed_where_it_could_be_two_ways() -> None:
    text = POOL + "\tminValues: 1\n"
    assert faults(text) == [(13, "", "not YAML: a tab, where YAML wants spaces", [])]
