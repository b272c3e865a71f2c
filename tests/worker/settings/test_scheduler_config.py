"""SET-06, SCH-062: what SCHEDULER_CONFIG may say, where it is read from, and what is told of one that is no use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tenon.kube.pod_rules import SpreadRule
from tenon.kube.scheduler_config import SYSTEM, scheduler_config
from worker.settings import Settings, SettingsError, load_all

ZONE = "topology.kubernetes.io/zone"
CONSTRAINT = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
RULE = SpreadRule(ZONE, 1, None)


def karpenter(*constraints: Any, **others: Any) -> dict[str, Any]:
    return {"podTopologySpread": {"defaultConstraints": list(constraints), **others}}


def kube(*profiles: tuple[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": name,
                "pluginConfig": [{"name": "NodeAffinity"}, {"name": "PodTopologySpread", "args": args}],
            }
            for name, args in profiles
        ],
    }


def load(value: str) -> Settings:
    return load_all({"scheduler_config": value}, {"CLUSTER_NAME": "c"}).settings


def refusal(value: str) -> str:
    with pytest.raises(SettingsError) as refused:
        load(value)
    return str(refused.value)


def test_karpenters_document_is_for_the_pods_of_every_scheduler() -> None:
    result = scheduler_config(karpenter(CONSTRAINT))
    assert result.of("") == result.of("default-scheduler") == result.of("mine") == (RULE,)
    assert result.hard("")
    assert not scheduler_config(karpenter({**CONSTRAINT, "whenUnsatisfiable": "ScheduleAnyway"})).hard("")


def test_each_profile_is_for_the_pods_of_its_scheduler() -> None:
    declaration = {"defaultConstraints": [CONSTRAINT], "defaultingType": "List"}
    result = scheduler_config(kube(("default-scheduler", {"defaultingType": "System"}), ("mine", declaration)))
    assert (result.of(""), result.of("mine"), result.of("other")) == (SYSTEM, (RULE,), ())
    assert not result.hard("")


def test_everything_that_a_constraint_may_say_is_kept() -> None:
    text = {"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    (rule,) = scheduler_config(karpenter({**CONSTRAINT, **text})).of("")
    assert rule == SpreadRule(ZONE, 1, None, min_domains=3, honor_affinity=False, honor_taints=True)


@pytest.mark.parametrize(
    "document", [{}, karpenter(), kube(), kube(("default-scheduler", {"kind": "PodTopologySpreadArgs"}))]
)
def test_a_document_that_states_no_constraint_spreads_nothing(document: dict[str, Any]) -> None:
    """kube-scheduler's own preferences are followed only where ``System`` is written out."""
    assert not scheduler_config(document)


def test_a_file_is_read_once_and_its_text_handed_on(tmp_path: Path) -> None:
    """The processes of a worker follow the same document, whatever becomes of the file."""
    file = tmp_path / "scheduler.yaml"
    file.write_text(f"podTopologySpread:\n  defaultConstraints:\n  - {json.dumps(CONSTRAINT)}\n")
    settings = load(str(file))
    file.unlink()
    child = load_all({}, settings.as_environment()).settings
    assert child.default_spread().of("") == settings.default_spread().of("") == (RULE,)
    assert child.scheduler_config == json.dumps(karpenter(CONSTRAINT), separators=(",", ":"))


def test_without_it_there_are_no_default_constraints() -> None:
    assert not Settings(cluster_name="c").default_spread()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("/nowhere/scheduler.yaml", "it is neither a document nor a file that can be read"),
        ("podTopologySpreads: {}", "podTopologySpreads: is unknown"),
        ("a: [", "not YAML"),
        ("a: 1\n---\nb: 2", "it holds 2 documents: keep one"),
        (
            json.dumps(karpenter({**CONSTRAINT, "labelSelector": {}})),
            "defaultConstraints[0].labelSelector: must be left out",
        ),
        (json.dumps(karpenter({**CONSTRAINT, "matchLabelKeys": ["a"]})), "matchLabelKeys: must be left out"),
        (json.dumps(karpenter({**CONSTRAINT, "maxSkew": 0})), "defaultConstraints[0].maxSkew"),
        (json.dumps(karpenter({**CONSTRAINT, "topologyKey": "a b"})), "is not a label name"),
        (json.dumps(karpenter(CONSTRAINT, CONSTRAINT)), f"two default constraints over {ZONE}"),
        (json.dumps(karpenter(CONSTRAINT, defaultingType="System")), "defaultingType System goes without"),
        (json.dumps(kube(("a", {"defaultConstraints": [CONSTRAINT]}))), "defaultingType: must be List"),
        ('{"kind": "KubeSchedulerConfiguration", "apiVersion": "v1"}', "apiVersion: must be a version of"),
    ],
)
def test_what_kube_scheduler_would_not_take_is_refused_in_one_sentence(value: str, text: str) -> None:
    sentence = refusal(value)
    assert sentence.startswith("SCHEDULER_CONFIG=")
    assert text in sentence
    assert "\n" not in sentence


def test_a_file_that_is_no_document_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("just words")
    expectation = "the document must be a mapping: write podTopologySpread or a KubeSchedulerConfiguration"
    assert expectation in refusal(str(file))
    file.write_bytes(b"\xff\xfe\xff")
    assert "is not UTF-8 text" in refusal(str(file))


def test_a_long_document_is_not_repeated_as_a_whole() -> None:
    assert len(refusal(json.dumps(karpenter({**CONSTRAINT, "labelSelector": {}}, *[CONSTRAINT] * 50)))) < 1000
