"""``tenon validate``: file, line, field, reason and the better line of everything that would be refused."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from cli.validate import show
from tenon.apis.legacy.amis import FIRST_VERSION_WITHOUT_AL2
from tenon.ec2.families import al2
from tenon.manifests.checking import check
from tenon.manifests.warnings import NOT_OF_TYPES
from tests.convert.running import validate
from tests.validate.findings import BETA, PROVISIONER, faults, warnings
from tests.validate.slips import CLASS, POOL, SLIPS, SOUND, Slip


@pytest.mark.parametrize("text", SOUND)
def test_correct_manifests_have_no_faults(text: str) -> None:
    answer = validate("-f", "-", stdin=text)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.splitlines()[-1] == "1 object checked, 0 faults, 0 warnings, 0 of other kinds skipped"


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.path)
def test_the_suggested_line_is_correct(slip: Slip) -> None:
    assert [(fault[0], fault[1], fault[3]) for fault in faults(slip.text)] == [(slip.line, slip.path, [slip.better])]
    assert faults(slip.fixed_lines) == []


def test_a_group_that_is_mistyped_is_no_kind_of_others() -> None:
    ((line, path, reason, fixed),) = faults(PROVISIONER.replace("karpenter.sh/v1alpha5", "karpenter/v1alpha5"))
    assert (line, path, fixed) == (1, "apiVersion", ["apiVersion: karpenter.sh/v1alpha5"])
    assert reason == "karpenter/v1alpha5 is not a version of Provisioner: write karpenter.sh/v1alpha5"
    hypershift = "apiVersion: hypershift.openshift.io/v1beta1\nkind: NodePool\nmetadata: {name: a}\n"
    assert faults(hypershift) == []


def test_an_unknown_field_without_a_similar_name_gets_no_suggestion() -> None:
    ((line, path, reason, fixed),) = faults(POOL.replace("  template:", "  colour: red\n  template:"))
    assert (line, path, reason, fixed) == (6, "spec.colour", "is not a field here: leave it out", [])


NAMELESS = PROVISIONER.replace("  name: default\nspec", "name: default\nspec")


@pytest.mark.parametrize("provider", ["providerRef: {name: default}", "provider: {instanceProfile: p}"])
def test_a_name_at_the_depth_of_metadata_is_to_be_indented_and_is_the_only_cause(provider: str) -> None:
    """The class of an inline provider has the name of the Provisioner."""
    assert [fault[:3] for fault in faults(NAMELESS.replace("providerRef: {name: default}", provider))] == [
        (3, "metadata.name", "is required"),
        (4, "name", "is not a field here: it belongs to metadata, so indent it"),
    ]


def test_labels_of_a_template_belong_to_its_metadata() -> None:
    ((line, path, reason, _),) = faults(POOL.replace("  template:\n", "  template:\n    labels: {a: b}\n"))
    assert (line, path) == (7, "spec.template.labels")
    assert reason == "is not a field here: it belongs to metadata, so indent it"


def test_the_class_of_an_inline_provider_needs_a_name_that_is_known() -> None:
    text = NAMELESS.replace("name: default\nspec", "  generateName: a-\nspec", 1)
    inline = text.replace("providerRef: {name: default}", "provider: {instanceProfile: p}")
    assert [fault[1:3] for fault in faults(inline)] == [("metadata.name", "is required")]
    assert faults(text) == []


def test_every_fault_of_a_document_is_reported_at_once() -> None:
    text = POOL.replace("operator: In", "operator: in").replace("spec:\n  template", "spec:\n  weight: 500\n  template")
    assert [(line, path) for line, path, _, _ in faults(text)] == [
        (6, "spec.weight"),
        (12, "spec.template.spec.requirements[0].operator"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "path"),
    [
        (PROVISIONER.replace("spec:\n", "spec:\n  ttlSecondsAfterEmpty: -1\n"), 6, "spec.ttlSecondsAfterEmpty"),
        (PROVISIONER.replace("spec:\n", "spec:\n  ttlSecondAfterEmpty: 30\n"), 6, "spec.ttlSecondAfterEmpty"),
        (PROVISIONER.replace("[spot]", "[5]"), 8, "spec.requirements[0].values[0]"),
        (
            PROVISIONER.replace("providerRef: {name: default}", "provider: {amiFamily: Debian}"),
            6,
            "spec.provider.amiFamily",
        ),
        (PROVISIONER.replace("karpenter.sh/capacity-type", "karpenter.sh/unknown"), 8, "spec.requirements[0].key"),
        (BETA.replace("WhenUnderutilized", "WhenEmpty"), 6, "spec.disruption.consolidateAfter"),
        (BETA.replace("name: default}", "name: default, group: x}"), 10, "spec.template.spec.nodeClassRef.group"),
    ],
)
def test_older_objects_are_checked_by_the_rules_of_their_age(text: str, line: int, path: str) -> None:
    assert [(fault[0], fault[1]) for fault in faults(text)] == [(line, path)]


def test_an_older_object_is_taken_and_tenon_convert_is_named() -> None:
    ((line, reason),) = warnings(PROVISIONER)
    assert line == 1
    assert reason.endswith("`tenon convert` prints it as NodePool default of v1")
    assert [reason for _, reason in warnings(BETA)] == [
        "karpenter.sh/v1beta1 is of an older Karpenter: `tenon convert` prints it as NodePool default of v1"
    ]


def test_old_labels_and_unknown_values_are_warned_of() -> None:
    text = POOL.replace('values: ["spot"]', 'values: ["spot", "Spot"]') + (
        "        - {key: beta.kubernetes.io/arch, operator: In, values: [amd64]}\n"
    )
    assert warnings(text) == [
        (12, "unknown values Spot are ignored"),
        (13, "label beta.kubernetes.io/arch is kubernetes.io/arch today, which it is read as"),
    ]


def test_v1b04_numbers_among_the_reserved_amounts_of_older_objects_become_texts() -> None:
    """A kubelet reads texts only. Versions before v1 took numbers too."""
    pool = {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": "a"},
        "spec": {
            "template": {
                "spec": {"nodeClassRef": {"name": "d"}, "requirements": [], "kubelet": {"kubeReserved": {"pid": 100}}}
            }
        },
    }
    objects = [pool, yaml.safe_load(CLASS) | {"metadata": {"name": "d"}}]
    assert check([("objects.yaml", yaml.safe_dump_all(objects))]).faults == []


def test_ec15_expressions_are_compiled_and_their_gate_is_named() -> None:
    computed = CLASS + "  kubelet:\n    maxPods: 110\n    kubeReserved:\n      cpu: max(60, vcpus * 30)\n"
    gate = "expressions are read with AWS_FEATURE_GATES=NodeClassCEL=true only: set it, or write plain values"
    assert warnings(computed) == [(13, gate)]
    ((line, path, reason, _),) = faults(computed.replace("vcpus", "cores"))
    assert (line, path) == (13, "spec.kubelet.kubeReserved[cpu]")
    assert "undeclared reference to 'cores' at character 9" in reason
    ((line, path, _, better),) = faults(computed.replace("110", '"110"'))
    assert (line, path, better) == (11, "spec.kubelet.maxPods", ["maxPods: 110"])


def test_pools_that_take_the_same_pods_are_warned_of_whatever_their_age() -> None:
    other = PROVISIONER.replace("name: default\n", "name: other\n", 1)
    result = warnings(f"{POOL}---\n{other}")
    assert [(line, reason.partition(",")[0]) for line, reason in result] == [
        (4, "it takes the same pods as NodePool other"),
        (14, result[1][1].partition(",")[0]),
        (17, "it takes the same pods as NodePool default"),
    ]


def test_a_class_that_only_a_pool_names_is_warned_of() -> None:
    """Only among files that have classes: others may be in the cluster."""
    text = f"{POOL.replace('name: default}', 'name: defualt}')}---\n{CLASS}"
    message = "there is no EC2NodeClass defualt among these manifests (did you mean default?)"
    assert warnings(text) == [(8, message)]
    assert warnings(text.replace("defualt", "default")) == []
    assert warnings(text.partition("---")[0]) == []


def test_a_limit_that_allows_no_node_is_warned_of() -> None:
    limited = POOL.replace("spec:\n", 'spec:\n  limits: {cpu: "0", memory: 10Gi}\n', 1)
    assert warnings(limited) == [(6, "a limit of 0 cpu keeps this NodePool from launching any node")]


def test_sch031_min_values_that_no_instance_type_can_meet_are_warned_of() -> None:
    requirement = "{key: KEY, operator: Exists, minValues: 2}"
    pool = POOL.replace("requirements:\n", f"requirements:\n        - {requirement}\n", 1)
    assert requirement in pool
    (warning,) = warnings(pool.replace("KEY", "example.com/team"))
    assert warning == (pool[: pool.index("KEY")].count("\n") + 1, NOT_OF_TYPES.format("example.com/team"))
    assert warnings(pool.replace("KEY", "karpenter.k8s.aws/instance-family")) == []


ALIAS = "amiSelectorTerms: [{alias: al2023@latest}]"
AL2_ENDS = "AL2 has no images from Kubernetes 1.33 on: use {} there"


@pytest.mark.parametrize(
    ("text", "line", "instead"),
    [
        (CLASS.replace("al2023@latest", "al2@v20240807"), 7, "al2023@latest"),
        (CLASS.replace("/v1\n", "/v1beta1\n").replace(ALIAS, "amiFamily: AL2"), 7, "AL2023"),
        (PROVISIONER.replace("providerRef: {name: default}", "provider: {amiFamily: AL2}"), 6, "AL2023"),
    ],
    ids=["v1", "v1beta1", "Provisioner"],
)
def test_images_of_al2_are_warned_of_because_they_end_with_kubernetes_1_32(text: str, line: int, instead: str) -> None:
    assert [warning for warning in warnings(text) if "AL2" in warning[1]] == [(line, AL2_ENDS.format(instead))]
    assert al2.has_images("1.32")
    assert not al2.has_images(FIRST_VERSION_WITHOUT_AL2)


@pytest.mark.parametrize(
    "text",
    [
        CLASS.replace(ALIAS, "amiFamily: AL2\n  amiSelectorTerms: [{id: ami-1}]"),
        PROVISIONER.replace("providerRef: {name: default}", "provider: {instanceProfile: p}"),
    ],
    ids=["own images", "no family, for which Tenon uses AL2023"],
)
def test_other_images_of_al2_are_not_warned_of(text: str) -> None:
    assert [reason for _, reason in warnings(text) if "AL2" in reason] == []


def tagged(*tags: str) -> str:
    return CLASS + "  tags:\n" + "".join(f"    {tag}\n" for tag in tags)


def test_tags_that_ec2_takes_on_no_launch_are_warned_of_each_on_its_line() -> None:
    text = tagged("team: a", "aws:eks:cluster-name: b", f"long: {'x' * 257}", f"{'k' * 129}: b", f"fits: {'x' * 256}")
    refused = "EC2 refuses this tag, and so every launch with it"
    assert warnings(text) == [
        (12, f"{refused}: names that begin with aws: are those of AWS"),
        (13, f"{refused}: EC2 takes 128 characters of a name and 256 of a value"),
        (14, f"{refused}: EC2 takes 128 characters of a name and 256 of a value"),
    ]
    provider = "provider: {instanceProfile: p, tags: {aws:x: web}}"
    older = [reason for _, reason in warnings(PROVISIONER.replace("providerRef: {name: default}", provider))]
    assert f"{refused}: names that begin with aws: are those of AWS" in older


@pytest.mark.parametrize(("own", "name", "every"), [(42, 0, 50), (42, 1, 50), (43, 0, 51), (43, 1, 51), (50, 0, 58)])
def test_more_tags_than_an_instance_takes_with_those_of_tenon_are_warned_of(own: int, name: int, every: int) -> None:
    text = tagged(*(f"t{number}: x" for number in range(own)), *["Name: web"] * name)
    expected = (
        f"EC2 takes 50 tags of an instance, and these are {every} with the {every - own - name} that Tenon adds, so it "
        f"refuses every launch: remove {every - 50}"
    )
    assert warnings(text) == ([(10, expected)] if every > 50 else [])


def test_an_object_that_is_there_twice_is_warned_of() -> None:
    assert warnings(f"{CLASS}---\n{CLASS}") == [(14, "appears twice, first at standard input:4: the later one wins")]


def test_an_autoscaler_of_a_removed_version_is_reported() -> None:
    text = "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n"
    answer = validate("-f", "-", "-o", "json", stdin=text)
    (warning,) = answer.document["warnings"]
    assert (warning["line"], warning["reason"]) == (
        1,
        "autoscaling/v2beta2 has not been served since Kubernetes 1.26: autoscaling/v2 has the same fields",
    )


def test_other_kinds_are_counted_and_their_old_names_reported() -> None:
    text = 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    karpenter.sh/do-not-evict: "true"\n'
    answer = validate("-f", "-", stdin=text)
    assert answer.status == 0
    assert answer.out.splitlines() == [
        "warning: standard input:6: metadata.annotations[karpenter.sh/do-not-evict]: "
        "karpenter.sh/do-not-evict is karpenter.sh/do-not-disrupt now",
        '    write: karpenter.sh/do-not-disrupt: "true"',
        "0 objects checked, 0 faults, 1 warning, 1 of other kinds skipped (Pod)",
    ]


@pytest.mark.parametrize("kind", ["a\\nb", "a\\u202eb", "a\\e[31mb", "a" * 5000])
def test_the_last_line_stays_a_line_whatever_the_kinds_are(kind: str) -> None:
    answer = validate("-f", "-", stdin=f'{{apiVersion: v1, kind: "{kind}", metadata: {{name: a}}}}')
    assert answer.out.count("\n") == 1
    assert answer.out[:-1].isprintable()
    assert len(answer.out) < 1000


def test_settings_are_read_and_pointed_at_the_environment() -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: karpenter-global-settings}\ndata: {batchMaxDuration: 10}\n"
    )
    assert [(line, path, fixed) for line, path, _, fixed in faults(text)] == [
        (4, "data.batchMaxDuration", ['data: {batchMaxDuration: "10"}'])
    ]
    assert "environment variables" in warnings(text.replace("10}", "10s}"))[0][1]


def test_leg52_values_of_settings_that_are_passed_over_are_pointed_at() -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: karpenter-global-settings}\ndata:\n"
        "  batchMaxDuration: 10s\n  aws.tags: 'team=a'\n  aws.tags.karpenter.sh/nodepool: x\n"
    )
    _, *message = warnings(text)
    assert [sentence.partition(":")[0] for _, sentence, *_ in message] == [
        "aws.tags is left out",
        "the tag 'karpenter.sh/nodepool' of aws.tags is left out",
    ]


def test_files_folders_and_what_is_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POOL)
    (tmp_path / "b.yaml").write_text(CLASS + "---\nkind: [}\n")
    answer = validate("-f", str(tmp_path), "-f", str(tmp_path / "gone.yaml"))
    assert answer.status == 2
    lines = answer.out.splitlines()
    assert lines[0] == f"{tmp_path}/gone.yaml: cannot be read: No such file or directory"
    assert lines[1].startswith(f"{tmp_path}/b.yaml:11: not YAML: ")
    assert lines[-1].startswith("2 objects checked, 2 faults, 0 warnings")


def test_a_catalogue_of_instance_types_in_a_folder_is_no_manifest(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POOL)
    catalogue = tmp_path / "b.json"
    catalogue.write_text('{"instanceTypes": []}')
    answer = validate("-f", str(tmp_path))
    assert answer.out.splitlines() == ["1 object checked, 0 faults, 0 warnings, 0 of other kinds skipped"]
    assert "kind: is required" in validate("-f", str(catalogue)).out
    catalogue.write_text('{"metadata": {"name": "a"}}')
    assert "kind: is required" in validate("-f", str(tmp_path)).out


def test_people_at_a_terminal_see_a_table() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    slip = SLIPS[0]
    show(check([("pool.yaml", slip.text)]).findings, console)
    shown = console.export_text()
    for text in (f"pool.yaml:{slip.line}", "NodePool default", "put it in quotes", f"write: {slip.better}"):
        assert text in shown


def test_lists_are_opened_and_keep_their_lines() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n" + "".join(
        f"  {'- ' if number == 0 else '  '}{line}\n"
        for number, line in enumerate(POOL.replace("In", "in").splitlines())
    )
    assert [(line, path) for line, path, _, _ in faults(text)] == [(14, "spec.template.spec.requirements[0].operator")]
