"""``tenon convert`` as a command: files, folders, standard input, and what it says of faults."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.convert.running import convert, validate
from tests.validate.findings import BETA

PROVISIONER = """# my first one
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default
spec:
  ttlSecondsAfterEmpty: 30 # half a minute
  providerRef:
    name: default
"""
TEMPLATE = """apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata:
  name: default
spec:
  instanceProfile: nodes
  subnetSelector: {a: b}
  securityGroupSelector: {a: b}
"""
SETTINGS = """apiVersion: v1
kind: ConfigMap
metadata: {name: karpenter-global-settings}
data: {batchMaxDuration: 20s}
"""
OTHERS = """# kept as it is
kind:   Service     # with its blanks
apiVersion: v1
metadata: {name:   web}
spec: {ports: [{port: 80}]}   # and its braces
---

# nothing here but this

---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: today}   # no change
"""


def written(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_standard_input_is_printed_in_todays_form() -> None:
    answer = convert("-f", "-", stdin=PROVISIONER)
    assert (answer.status, answer.err) == (0, "")
    (pool,) = yaml.safe_load_all(answer.out)
    assert (pool["apiVersion"], pool["kind"]) == ("karpenter.sh/v1", "NodePool")
    assert answer.out.startswith("# my first one\n")
    assert "consolidateAfter: 30s # half a minute; was spec.ttlSecondsAfterEmpty: 30\n" in answer.out


def test_other_documents_are_printed_byte_for_byte() -> None:
    assert convert("-f", "-", stdin=OTHERS).out == OTHERS


def test_an_autoscaler_of_a_removed_version_becomes_v2() -> None:
    """Seed 003's: the fields of v2beta2 are those of v2. In a list as well."""
    text = "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n"
    answer = convert("-f", "-", stdin=text)
    assert (answer.status, answer.err) == (0, "")
    first, rest = answer.out.split("\n", 1)
    assert first == "apiVersion: autoscaling/v2 # was autoscaling/v2beta2, which Kubernetes has not served since 1.26"
    assert rest == text.split("\n", 1)[1]
    assert convert("-f", "-", stdin=answer.out).out == answer.out
    inside = '{"kind": "List", "apiVersion": "v1", "items": [%s]}'
    autoscaler = '{"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2beta2", "metadata": {"name": "a"}}'
    (body,) = convert("-f", "-", "-o", "json", stdin=inside % autoscaler).document["items"]
    assert body["apiVersion"] == "autoscaling/v2"


def test_windows_line_ends_survive_a_change() -> None:
    text = "kind: Pod\r\napiVersion: v1\r\nmetadata:\r\n  annotations:\r\n    karpenter.sh/do-not-evict: 'true'\r\n"
    out = convert("-f", "-", stdin=text.encode()).out
    assert "karpenter.sh/do-not-disrupt: 'true' # was karpenter.sh/do-not-evict\r\n" in out.replace(
        "\n", "\r\n"
    ).replace("\r\r", "\r")


def test_a_folder_and_files_are_converted_together(tmp_path: Path) -> None:
    """The settings of one file say what a template of another leaves open (LEG-35)."""
    folder = written(tmp_path / "in", a=PROVISIONER, b=TEMPLATE.replace("  instanceProfile: nodes\n", ""))
    (tmp_path / "c.yaml").write_text(SETTINGS.replace("batchMaxDuration: 20s", "aws.defaultInstanceProfile: all"))
    answer = convert("-f", str(folder), "-f", str(tmp_path / "c.yaml"))
    assert answer.status == 0
    bodies = [body for body in yaml.safe_load_all(answer.out) if body]
    assert [body["kind"] for body in bodies] == ["NodePool", "EC2NodeClass"]
    assert bodies[1]["spec"]["instanceProfile"] == "all"


def test_files_are_written_into_a_folder_under_their_names(tmp_path: Path) -> None:
    folder = written(tmp_path / "in", pool=PROVISIONER, web=OTHERS)
    answer = convert("-f", str(folder), "-w", str(tmp_path / "out"))
    assert (answer.status, answer.out, answer.err) == (0, "", "")
    assert (tmp_path / "out" / "web.yaml").read_text() == OTHERS
    assert yaml.safe_load((tmp_path / "out" / "pool.yaml").read_text())["kind"] == "NodePool"
    assert (folder / "pool.yaml").read_text() == PROVISIONER


def test_no_file_overwrites_the_input_of_another(tmp_path: Path) -> None:
    path, other = written(tmp_path / "a", pool=PROVISIONER), written(tmp_path / "b", pool=OTHERS)
    answer = convert("-f", str(path / "pool.yaml"), "-f", str(other / "pool.yaml"), "-w", str(other))
    assert answer.status == 2
    assert f"{path}/pool.yaml: would replace {other}/pool.yaml and is not written" in answer.lines[0]
    assert (other / "pool.yaml").read_text() == OTHERS


def test_no_input_is_written_over(tmp_path: Path) -> None:
    folder = written(tmp_path / "in", pool=PROVISIONER)
    answer = convert("-f", str(folder), "-w", str(folder))
    assert answer.status == 2
    assert answer.lines == [
        f"{folder}/pool.yaml: is in the output folder itself and is not written: choose another output folder"
    ]
    assert (folder / "pool.yaml").read_text() == PROVISIONER


def test_two_files_of_one_name_are_not_written_over_each_other(tmp_path: Path) -> None:
    path, two = written(tmp_path / "one", pool=PROVISIONER), written(tmp_path / "two", pool=TEMPLATE)
    answer = convert("-f", str(path), "-f", str(two), "-w", str(tmp_path / "out"))
    assert answer.status == 2
    assert answer.lines == [f"{two}/pool.yaml: has the name of {path}/pool.yaml: convert them into different folders"]


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    answer = convert("-f", "-", "-w", str(tmp_path / "out" / "deeper"), stdin=PROVISIONER)
    assert answer.status == 2
    assert "cannot be written: " in answer.err
    assert "Traceback" not in answer.err


def test_json_is_a_list_that_kubectl_accepts_and_changes_go_to_stderr() -> None:
    answer = convert("-f", "-", "-o", "json", stdin=f"{PROVISIONER}---\n{SETTINGS}")
    assert answer.status == 0
    assert (answer.document["apiVersion"], answer.document["kind"]) == ("v1", "List")
    assert [item["kind"] for item in answer.document["items"]] == ["NodePool"]
    assert any(line.startswith("note: standard input:2: Provisioner default: ") for line in answer.lines)
    assert "batchMaxDuration is BATCH_MAX_DURATION now" in answer.err


def test_faults_have_file_line_and_field_and_the_rest_is_printed(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "in",
        a=PROVISIONER.replace("30 # half a minute", "-5"),
        b="kind: Pod\nspec: {a: [}\n",
        c=TEMPLATE,
    )
    answer = convert("-f", str(folder))
    assert answer.status == 2
    assert [body["kind"] for body in yaml.safe_load_all(answer.out)] == ["EC2NodeClass"]
    assert len(answer.lines) == 2
    assert answer.lines[0].startswith(f"{folder}/b.yaml:2: not YAML: ")
    assert answer.lines[1].startswith(f"{folder}/a.yaml:7: spec.ttlSecondsAfterEmpty: ")


def test_all_faults_are_reported_at_once() -> None:
    """As by `tenon validate`: what only the rules of its own age refuse next to what cannot be converted."""
    text = PROVISIONER.replace("30 # half a minute", "-5").replace(
        "  providerRef:", "  weight: 1000\n  taints: [{key: a, effect: Sometimes}]\n  colour: red\n  providerRef:"
    )
    answer = convert("-f", "-", stdin=text)
    assert (answer.status, answer.out) == (2, "")
    lines = {line.split(": ")[1] for line in answer.lines}
    checked = validate("-f", "-", "-o", "json", stdin=text).document["faults"]
    assert lines == {item["path"] for item in checked}
    assert {"spec.ttlSecondsAfterEmpty", "spec.weight", "spec.taints[0].effect", "spec.colour"} <= lines
    assert len(answer.lines) == len(checked)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (PROVISIONER.replace("  name: default\nspec", "name: default\nspec"), "metadata.name"),
        (PROVISIONER.replace("name: default", "name: ProdPool", 1), "metadata.name"),
        (TEMPLATE.replace("  name: default", "  labels: {a: b}"), "metadata.name"),
        (BETA.replace("name: default", "name: Prod_Pool", 1), "metadata.name"),
        (BETA.replace("  name: default", "  name: default\n  labels: {-a: b}", 1), "metadata.labels[-a]"),
    ],
)
def test_an_object_whose_name_or_labels_the_api_server_refuses_is_not_printed(text: str, path: str) -> None:
    answer = convert("-f", "-", stdin=text)
    assert (answer.status, answer.out) == (2, "")
    checked = validate("-f", "-", "-o", "json", stdin=text).document["faults"]
    assert path in {item["path"] for item in checked}
    assert [line.split(": ")[1] for line in answer.lines] == [item["path"] for item in checked]


def test_a_generated_name_is_a_name() -> None:
    answer = convert("-f", "-", stdin=PROVISIONER.replace("  name: default\nspec", "  generateName: web-\nspec"))
    assert (answer.status, answer.lines) == (0, [])
    assert "generateName: web-" in answer.out


def test_a_provisioner_without_a_version_is_asked_for_it_by_its_kind() -> None:
    answer = convert("-f", "-", stdin=PROVISIONER.replace("apiVersion: karpenter.sh/v1alpha5\n", ""))
    assert (answer.status, answer.out) == (2, "")
    assert answer.lines[0].endswith("apiVersion: is required, as a string: which version of Provisioner is this?")


def test_the_alias_of_al2_says_where_it_ends() -> None:
    text = PROVISIONER.replace("providerRef:\n    name: default", "provider: {instanceProfile: p}")
    answer = convert("-f", "-", stdin=text)
    assert answer.status == 0
    sentence = "is the alias al2@latest now: AL2 has no images from Kubernetes 1.33 on, so use al2023@latest there"
    assert sentence in " ".join(answer.out.replace("\n  #", "").split())


def test_what_comes_to_nothing_leaves_no_file_and_no_list(tmp_path: Path) -> None:
    """An empty file or list would be taken for the answer. One that was empty before is there."""
    folder = written(tmp_path / "in", a="kind: [", b=PROVISIONER.replace("30 #", "-5 #"), c=TEMPLATE, d="")
    for form, suffix in (("yaml", "yaml"), ("json", "json")):
        out = tmp_path / form
        assert convert("-f", str(folder), "-w", str(out), "-o", form).status == 2
        assert sorted(path.name for path in out.iterdir()) == [f"c.{suffix}", f"d.{suffix}"]
        answer = convert("-f", str(folder / "a.yaml"), "-f", str(folder / "b.yaml"), "-o", form)
        assert (answer.status, answer.out, len(answer.lines)) == (2, "", 2)


def test_values_that_v1_refuses_are_reported_by_the_old_field_with_a_fixed_line() -> None:
    text = PROVISIONER + "  requirements:\n    - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: [4, 8]}\n"
    (line,) = convert("-f", "-", stdin=text).lines
    assert line.startswith("standard input:11: spec.requirements[0].values: is not a string: put it in quotes; write ")
    assert line.endswith('values: ["4", "8"]}')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "apiVersion: karpenter.sh/v1alpha4\nkind: Provisioner\n",
            "1: apiVersion: karpenter.sh/v1alpha4 is not a version",
        ),
        ("apiVersion: karpenter.sh/v1alpha5\nkind: Provisoner\n", "2: kind: Provisoner is not a kind of"),
        ("- a\n- b\n", "1: is a list, not a Kubernetes object"),
        ("a: b\na: c\n", "2: key 'a' is given twice"),
    ],
)
def test_what_is_no_manifest_of_karpenters(text: str, message: str) -> None:
    answer = convert("-f", "-", stdin=text)
    assert (answer.status, answer.out) == (2, "")
    (line,) = answer.lines
    assert line.startswith(f"standard input:{message}")


def test_no_files_and_files_that_are_not_there() -> None:
    assert convert().lines == ["tenon convert: name manifests with -f"]
    answer = convert("-f", "/does/not/exist")
    assert (answer.status, answer.lines) == (2, ["/does/not/exist: cannot be read: No such file or directory"])


def test_an_empty_name_is_not_the_folder_of_the_moment() -> None:
    answer = convert("-f", "")
    assert (answer.status, answer.out, answer.lines) == (2, "", ["-f: names no file"])


def test_what_changed_needs_no_guessing_when_an_alias_is_in_the_way() -> None:
    """A label behind an alias has no place of its own: the document is written again, with the same meaning."""
    text = """apiVersion: v1
kind: Pod
metadata:
  annotations: &kept {karpenter.sh/do-not-evict: "true"}
spec:
  nodeSelector: *kept
  containers: []
"""
    out = convert("-f", "-", stdin=text).out
    assert yaml.safe_load(out)["spec"]["nodeSelector"] == {"karpenter.sh/do-not-disrupt": "true"}


def test_a_field_counts_as_explained_only_if_a_note_names_it_whole() -> None:
    """`generation` is left out, although the comment on the requirements has `instance-generation`."""
    text = PROVISIONER.replace("  name: default\n", "  name: default\n  uid: a-b\n  generation: 3\n", 1)
    answer = convert("-f", "-", stdin=text)
    assert "karpenter.k8s.aws/instance-generation Gt [2]" in answer.out
    assert "# left out: metadata.uid, metadata.generation\n" in answer.out


def test_a_field_whose_name_is_a_word_of_a_note_does_not_count_as_explained() -> None:
    text = """apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata:
  name: own
  generation: 3
spec:
  launchTemplate: generation
  subnetSelector: {karpenter.sh/discovery: demo}
"""
    out = convert("-f", "-", stdin=text).out
    assert "launchTemplate generation is left out" in out
    assert "# left out: metadata.generation\n" in out


def test_a_large_folder_is_converted_in_no_time(tmp_path: Path) -> None:
    folder = written(tmp_path / "in", all="---\n".join([PROVISIONER.replace("default", f"p{n}") for n in range(300)]))
    assert convert("-f", str(folder), "-w", str(tmp_path / "out")).status == 0
    assert os.path.getsize(tmp_path / "out" / "all.yaml") > 100_000
