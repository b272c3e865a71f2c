"""Objects of Karpenter before v1, and NodeOverlays, in the input of a simulation."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulate.mutating import ANYTHING, places
from tests.simulate.older_manifests import BETA, OLD, PROVISIONER, SETTINGS, TEMPLATE
from tests.simulate.random_manifests import judged
from tests.simulate.running import POOL, deployment, simulate

PLACES = [(number, path) for number, document in enumerate(OLD) for path in places(document)]


def test_a_provisioner_with_its_template_and_settings_is_planned_with(tmp_path: Path) -> None:
    answer = simulate(tmp_path, PROVISIONER + TEMPLATE + SETTINGS + deployment(replicas=1))
    (claim,) = answer.plan["nodeClaims"]
    assert (claim["nodePool"], claim["instanceTypes"]) == ("default", ["m5.large"])
    assert claim["offering"]["capacityType"] == "on-demand"
    assert "note: Provisioner default (karpenter.sh/v1alpha5) is read as NodePool default of v1\n" in answer.err
    assert "its instance profile is aws.defaultInstanceProfile of the settings: nodes" in answer.err


def test_leg52_the_tags_of_the_settings_are_reported_with_what_has_them(tmp_path: Path) -> None:
    tags = """aws.tags: '{"team": "a", "karpenter.sh/nodepool": "x"}'"""
    answer = simulate(tmp_path, PROVISIONER + TEMPLATE + SETTINGS.replace("batchMaxDuration: 10s", tags))
    assert "note: AWSNodeTemplate default: the settings (aws.tags, DEFAULT_TAGS) add tags: team\n" in answer.err
    assert "the tag 'karpenter.sh/nodepool' of aws.tags is left out: " in answer.err
    assert answer.status == 0


def test_the_order_of_documents_does_not_matter(tmp_path: Path) -> None:
    parts = [PROVISIONER, TEMPLATE.replace("---", ""), SETTINGS.replace("---", ""), deployment().replace("---", "")]
    answers = [simulate(tmp_path, "\n---\n".join(order)) for order in (parts, parts[::-1])]
    assert answers[0].plan == answers[1].plan
    assert sorted(answers[0].err.splitlines()) == sorted(answers[1].err.splitlines())


def test_all_older_kinds_together(tmp_path: Path) -> None:
    answer = simulate(tmp_path, PROVISIONER + TEMPLATE + SETTINGS + BETA)
    assert answer.plan["totals"] | {"pods": 3, "unschedulable": 0} == answer.plan["totals"]


def test_faults_of_an_old_object_name_its_own_fields(tmp_path: Path) -> None:
    wrong = PROVISIONER.replace("providerRef:", "ttlSecondsAfterEmpty: -5\n  providerRef:")
    (fault,) = simulate(tmp_path, wrong).faults
    assert fault.startswith("document 1: Provisioner default: spec.ttlSecondsAfterEmpty: ")


def test_an_old_and_a_new_object_of_one_name_are_a_fault(tmp_path: Path) -> None:
    (fault,) = simulate(tmp_path, f"{PROVISIONER}\n---\n{POOL}").faults
    assert "Provisioner default: becomes NodePool default, which also exists" in fault


def test_an_inline_provider_with_the_name_of_a_template_is_planned_with(tmp_path: Path) -> None:
    """LEG-06: both ran side by side. What a worker made of it keeps its name."""
    inline = PROVISIONER.replace(
        "providerRef: {name: default}", "provider: {subnetSelector: {a: c}, securityGroupSelector: {a: c}}"
    )
    answer = simulate(tmp_path, inline + TEMPLATE + deployment(replicas=1))
    assert answer.plan["totals"]["unschedulable"] == 0
    assert "is read as NodePool default, EC2NodeClass default-provider of v1" in answer.err
    stands = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default, annotations: "
    stands += "{tenon.sh/made-from: 'Provisioner default: edit that one'}}\nspec: {role: r, amiSelectorTerms: "
    stands += (
        "[{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}"
    )
    answer = simulate(tmp_path, f"{inline}{deployment(replicas=1)}\n---\n{stands}")
    assert "is read as NodePool default, EC2NodeClass default of v1" in answer.err


def test_pools_of_different_versions_that_take_the_same_pods_are_reported(tmp_path: Path) -> None:
    """Once, naming both; different weights settle it."""
    pool = POOL.replace("name: default}\nspec", "name: today}\nspec")
    events = "note: NodePool default: it takes the same pods as NodePool today"
    assert simulate(tmp_path, f"{PROVISIONER}{TEMPLATE}\n---\n{pool}").err.count(events) == 1
    heavier = pool.replace("spec:\n  template", "spec:\n  weight: 5\n  template")
    assert events not in simulate(tmp_path, f"{PROVISIONER}{TEMPLATE}\n---\n{heavier}").err


def test_what_a_worker_made_of_an_old_object_is_no_second_one(tmp_path: Path) -> None:
    """As with ``--live``, where both are read: the file's Provisioner counts."""
    mark = "{tenon.sh/made-from: 'Provisioner default: edit that one'}"
    stands = POOL.replace("name: default}\nspec", f"name: default, annotations: {mark}}}\nspec")
    answer = simulate(tmp_path, f"{PROVISIONER}{TEMPLATE}{deployment(replicas=1)}\n---\n{stands}")
    (claim,) = answer.plan["nodeClaims"]
    assert claim["instanceTypes"] == ["m5.large"]


def test_config_maps_that_are_no_settings_are_not_read(tmp_path: Path) -> None:
    answer = simulate(tmp_path, POOL + SETTINGS.replace("karpenter-global-settings", "other"))
    assert answer.err == "note: ConfigMap (v1) is not read\n"


def test_pods_of_today_keep_their_old_annotations(tmp_path: Path) -> None:
    """Without older kinds nothing is renamed: do-not-evict means nothing in v1."""
    text = POOL + "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    text += "spec: {nodeSelector: {karpenter.sh/provisioner-name: default}, containers: [{name: a}]}"
    assert simulate(tmp_path, text).plan["totals"]["unschedulable"] == 1


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(ANYTHING)), min_size=1, max_size=2))
def test_any_value_in_any_field_of_an_old_object(
    tmp_path: Path, edits: list[tuple[tuple[int, tuple[Any, ...]], Any]]
) -> None:
    documents = copy.deepcopy(OLD)
    for (number, path), value in edits:
        inner: Any = documents[number]
        try:
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = copy.deepcopy(value)  # a later edit may lie inside it
        except (KeyError, IndexError, TypeError):
            continue  # an earlier edit took the place away
    judged(simulate(tmp_path, "\n---\n".join(json.dumps(document) for document in documents)))
