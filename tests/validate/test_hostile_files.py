"""Files that nobody would write on purpose: each gets one plain line, no traceback, and an answer at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.convert.running import convert, validate
from tests.simulate.running import POOL as SIMULATED
from tests.simulate.running import command
from tests.validate.slips import CLASS, POOL

MAX_LINE = 400

DEEP_LIST = "a: " + "[" * 3_000 + "]" * 3_000
DEEP_MAP = "a: " + "{a: " * 3_000 + "1" + "}" * 3_000
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)
UNREADABLE: dict[str, tuple[str | bytes, str]] = {
    "tabs": (POOL.replace("  name: default", "\tname: default"), "a tab, where YAML wants spaces"),
    "a key twice": (POOL + "kind: NodePool\n", "key 'kind' is given twice"),
    "an alias bomb": (BOMB, "aliases expand to more than 200000 values"),
    "an alias of itself": ("a: &a [*a]\n", "alias *a refers to itself"),
    "an alias of nothing": ("a: *b\n", "alias *b names nothing before it"),
    "a Python tag": (
        "a: !!python/object/apply:os.system [ls]\n",
        "python/object/apply:os.system' is not known",
    ),
    "3000 lists": (DEEP_LIST, "nest deeper than 100"),
    "3000 mappings": (DEEP_MAP, "nest deeper than 100"),
    "3000 lists in JSON": ('{"a": ' + "[" * 3_000 + "]" * 3_000 + "}", "nest deeper than 100"),
    "a NUL": (POOL.replace("default", "def\0ault", 1), "not YAML"),
    "a template of Helm": ("metadata:\n  name: {{ .Values.name }}\n  {{- if .Values.x }}\n", "not YAML"),
    "Latin-1": (POOL.replace("default", "défaut", 1).encode("latin-1"), "is not UTF-8 text: byte"),
    "binary": (bytes(range(256)) * 4, "is not UTF-8 text: byte 128"),
    "half of UTF-16": (b"\xff\xfea", "is not UTF-8 text: byte"),
    "a merge of a text": ("a: {<<: b}\n", "<< merges mappings only"),
    "a list as a key": ("? [a, b]\n: c\n", "a key is not a plain text"),
}
"""A name, the file, and what is said about it."""


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_file_gets_one_line(name: str, tmp_path: Path) -> None:
    content, text = UNREADABLE[name]
    for line in _lines_of_both(tmp_path, content):
        assert text in line, line


UNLIKE_KUBECTL: dict[str, tuple[str | bytes, str]] = {
    "a key twice": (POOL + "kind: NodePool\n", "key 'kind' is given twice: remove one; kubectl takes the last"),
    "a key twice in JSON": ('{"kind": "List", "kind": "List"}', "key 'kind' is given twice: remove one; kubectl takes"),
    "a key twice, deep": (POOL.replace("  name: default", "  name: a\n  name: b", 1), "key 'name' is given twice"),
    "Latin-1 in a comment": (
        POOL.encode() + b"# gr\xfc\xdfe\n",
        "save it as UTF-8, because kubectl replaces such bytes",
    ),
    "Windows-1252 in a value": (
        POOL.replace("name: default", "name: \x96", 1).encode("latin-1"),
        "save it as UTF-8, because kubectl replaces such bytes",
    ),
    "text after the end": (
        POOL + "...\nnot for kubectl\n",
        "text follows the end of the object: put a line --- before it if it is another object, or remove it, because "
        "kubectl ignores it",
    ),
    "an object after the end": (POOL + "...\n" + POOL, "text follows the end of the object: put a line ---"),
    "JSON objects after a comment": (
        "# two\n" + json.dumps({"kind": "List"}) + "\n" + json.dumps({"kind": "List"}),
        "text follows the end of the object: put a line ---",
    ),
}
"""Files that kubectl reads, but not as they look: the fault says how kubectl reads them."""


@pytest.mark.parametrize("name", UNLIKE_KUBECTL)
def test_a_file_that_kubectl_reads_otherwise_than_it_looks_is_refused(name: str, tmp_path: Path) -> None:
    content, text = UNLIKE_KUBECTL[name]
    file = tmp_path / "hostile.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    converted = convert("-f", str(file))
    assert converted.status == 2
    checked = [line for line in validate("-f", str(file)).out.splitlines() if str(file) in line]
    for line in (*checked, *converted.err.splitlines(), *command("-f", str(file)).err.splitlines()):
        assert text in line, line
    assert len(checked) == 1


NO_OBJECTS: dict[str, tuple[str, str]] = {
    "a list": ("[1, 2]\n", "is a list, not a Kubernetes object"),
    "a text": ("hello\n", "is a text, not a Kubernetes object"),
    "a number": ("5\n", "is a single value, not a Kubernetes object"),
    "an array in JSON": ('[{"kind": "NodePool"}]', "is a list, not a Kubernetes object"),
    "items that are no list": ("apiVersion: v1\nkind: List\nitems: {a: b}\n", "is not a list"),
    "a list in lists": (
        json.dumps(
            {
                "kind": "List",
                "items": [{"kind": "List", "items": [{"kind": "List", "items": [{"kind": "List", "items": []}]}]}],
            }
        ),
        "lists are nested in lists too deeply",
    ),
}


@pytest.mark.parametrize("name", NO_OBJECTS)
def test_what_is_no_object_gets_one_line(name: str, tmp_path: Path) -> None:
    content, text = NO_OBJECTS[name]
    for line in _lines_of_both(tmp_path, content):
        assert text in line, line


def _lines_of_both(folder: Path, content: str | bytes) -> list[str]:
    """The only fault that `tenon validate` and `tenon simulate` report."""
    raw = content.encode() if isinstance(content, str) else content
    file = folder / "hostile.yaml"
    file.write_bytes(raw)
    checked = validate("-f", str(file))
    *findings, total = [line for line in checked.out.splitlines() if not line.startswith("    write: ")]
    assert (checked.status, checked.err, len(findings)) == (2, "", 1), checked.out[:2000]
    assert "1 fault" in total
    simulated = command("-f", str(file))
    faults = simulated.err.splitlines()
    assert (simulated.status, simulated.out, len(faults)) == (2, "", 1), simulated.err[:2000]
    for line in (*findings, *faults):
        assert len(line) < MAX_LINE
        assert "Traceback" not in line
    return [*findings, *faults]


def changed(old: str, new: str) -> str:
    assert old in POOL
    return POOL.replace(old, new, 1)


def spec(field: str) -> str:
    return changed("spec:\n", f"spec:\n  {field}\n")


def expires(after: str) -> str:
    return changed("      nodeClassRef", f"      expireAfter: {after}\n      nodeClassRef")


def requirement(text: str) -> str:
    before, _, _ = POOL.partition("        - key")
    return before + f"        - {text}\n"


def of_class(field: str) -> str:
    return f"{CLASS}  {field}\n"


REFUSED: dict[str, tuple[str, str]] = {
    "a huge weight": (spec("weight: 99999999999999999999"), "spec.weight"),
    "a weight with a fraction": (spec("weight: 1.5"), "spec.weight"),
    "a weight in quotes": (spec('weight: "5"'), "spec.weight"),
    "a weight of 0": (spec("weight: 0"), "spec.weight"),
    "a negative limit": (spec("limits: {cpu: -1}"), "spec.limits[cpu]"),
    "a limit that is no number": (spec("limits: {cpu: .nan}"), ".nan is not a number that a manifest can contain"),
    "a limit with a wrong suffix": (spec("limits: {memory: 10GiB}"), "spec.limits.memory"),
    "Gt below zero": (requirement('{key: a, operator: Gt, values: ["-1"]}'), "whole number from 0"),
    "Gt of 20 digits": (requirement('{key: a, operator: Gt, values: ["99999999999999999999"]}'), "whole number from 0"),
    "Gt of two values": (requirement('{key: a, operator: Gt, values: ["1", "2"]}'), "exactly one value"),
    "Gt of a fraction": (requirement('{key: a, operator: Gt, values: ["1.5"]}'), "whole number from 0"),
    "an operator in lower case": (requirement("{key: a, operator: in, values: [b]}"), "operator"),
    "In without values": (requirement("{key: a, operator: In, values: []}"), "at least one value"),
    "numbers as values": (requirement("{key: a, operator: In, values: [4]}"), "is not a string: put it in quotes"),
    "yes as a value": (requirement("{key: a, operator: In, values: [yes]}"), "is not a string"),
    "a value of 64 letters": (requirement(f"{{key: a, operator: In, values: [{'b' * 64}]}}"), "is not a label value"),
    "typographic quotes": (requirement("{key: a, operator: In, values: [“b”]}"), "is not a label value"),
    "a name in capitals": (changed("name: default\n", "name: Default\n"), "metadata.name"),
    "a name of letters abroad": (changed("name: default\n", "name: défaut\n"), "metadata.name"),
    "a number as a name": (changed("name: default\n", "name: 5\n"), "metadata.name"),
    "a label value that is a picture": (
        changed("    spec:\n", '    metadata: {labels: {team: "🚀"}}\n    spec:\n'),
        "spec.template.metadata.labels",
    ),
    "a label key of 64 letters": (
        changed("    spec:\n", f"    metadata: {{labels: {{{'a' * 64}: x}}}}\n    spec:\n"),
        "is not a label name",
    ),
    "a taint without effect": (changed("      requirements", "      taints: [{key: a}]\n      requirements"), "effect"),
    "a taint twice": (
        changed(
            "      requirements",
            "      taints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]\n      requirements",
        ),
        "2 times",
    ),
    "expireAfter below zero": (
        changed("      nodeClassRef", "      expireAfter: -1h\n      nodeClassRef"),
        "expireAfter",
    ),
    "expireAfter as a number": (
        changed("      nodeClassRef", "      expireAfter: 5\n      nodeClassRef"),
        "expireAfter",
    ),
    "never in lower case": (
        changed("      nodeClassRef", "      expireAfter: never\n      nodeClassRef"),
        "expireAfter",
    ),
    "a version of tomorrow": (changed("karpenter.sh/v1", "karpenter.sh/v7"), "apiVersion"),
    "no kind": (changed("kind: NodePool\n", ""), "kind"),
    "a disk of no size": (
        of_class("blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: many}}]"),
        "is not a volume size",
    ),
    "both roles": (of_class("instanceProfile: nodes"), "exactly one of role and instanceProfile"),
    "100 KB of user data": (of_class(f'userData: "{"x" * 100_000}"'), "EC2 takes at most 16384"),
    "maxPods below zero": (of_class("kubelet: {maxPods: -1}"), "spec.kubelet.maxPods"),
    "150% of memory": (of_class("kubelet: {evictionHard: {memory.available: 150%}}"), "spec.kubelet.evictionHard"),
    "an alias and an id of images": (
        CLASS.replace("[{alias: al2023@latest}]", "[{alias: al2023@latest}, {id: ami-0123456789abcdef0}]"),
        "alias",
    ),
}
"""A name, a manifest that YAML can read, and a part of what is said about it."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_faulty_field_gets_one_plain_line(name: str) -> None:
    text, message = REFUSED[name]
    answer = validate("-f", "-", stdin=text)
    findings = [line for line in answer.out.splitlines()[:-1] if not line.startswith(("    ", "warning: "))]
    assert (answer.status, answer.err) == (2, "")
    assert any(message in line for line in findings), answer.out[:2000]
    assert all(len(line) < MAX_LINE for line in findings)


ACCEPTED: dict[str, Callable[[str], str | bytes]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CR": lambda text: text.replace("\n", "\r"),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, the other way": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "separators only around": lambda text: f"---\n---\n# nothing\n---\n{text}---\n",
    "anchors": lambda text: text.replace("name: default", "name: &n default", 1).replace("name: default}", "name: *n}"),
    "managed fields": lambda text: text.replace("metadata:\n", "metadata:\n  managedFields: [{manager: kubectl}]\n", 1),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_odd_forms_that_kubectl_reads_are_read(name: str, tmp_path: Path) -> None:
    content = ACCEPTED[name](POOL)
    file = tmp_path / "odd.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    answer = validate("-f", str(file))
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.splitlines()[-1].startswith("1 object checked, 0 faults")


@pytest.mark.parametrize("between", ["\n", "", " ", "\r\n", "\n\n"])
def test_json_objects_one_after_another_are_read_as_kubectl_reads_them(tmp_path: Path, between: str) -> None:
    """This is what ``jq '.items[]'`` prints."""
    first = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "main"}]}}
    second = {**first, "metadata": {"name": "b"}}
    file = tmp_path / "objects.json"
    file.write_text(between.join(json.dumps(body, indent=2) for body in (first, second)))
    pool = tmp_path / "pool.yaml"
    pool.write_text(SIMULATED)
    plan = command("-f", str(file), "-f", str(pool), "-o", "json").plan
    assert plan["totals"]["pods"] == 2
    faulty = json.dumps({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": {}})
    file.write_text(f"{json.dumps(first)}\n{faulty}\n{json.dumps(second)}\n")
    lines = validate("-f", str(file)).out.splitlines()
    assert lines[0].startswith(f"{file}:2: spec.template: is required")


@pytest.mark.parametrize("text", ['{"kind": "List"} {"kind"', '{"kind": "List"} 5', '{"kind": "List"}}'])
def test_broken_json_after_an_object_is_one_fault(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(text)
    answer = validate("-f", str(file))
    assert (answer.status, len(answer.out.splitlines())) == (2, 2)
