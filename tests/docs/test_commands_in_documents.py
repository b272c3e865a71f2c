"""The documents show commands. Their subcommands, options, settings and values of the charts exist."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from cli.main import app
from tests.docs.documents import DOCUMENTS, ROOT, name_of, text_of

SPAN = re.compile(r"`([^`\n]+)`")
SEPARATOR = re.compile(r"\\?\||&&|;|\s>+\s|\s<\s|\s#\s|\s--\s|\$\(|\)")
ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
OPTION = re.compile(r"(--[a-z][a-z-]*|-[a-zA-Z])(?:=.*)?")
VALUE = re.compile(r"--set(?:-literal)?[ =][\"']?([\w.-]+(?:\\\.[\w./-]+)*)=")
SETTING = re.compile(r"^\| `([A-Z_]+)` \|", re.MULTILINE)
PLACEHOLDERS = {"COMMAND", "SUBCOMMAND", "NAME"}
HELP = {"--help", "-h"}


def code_of(text: str) -> Iterator[str]:
    """The lines of blocks, with continued lines as one, and the spans of code in sentences and tables."""
    is_fenced = False
    for line in text.replace("\\\n", " ").splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("    "):
            yield line.strip().removeprefix("$ ")
        else:
            yield from SPAN.findall(line)


def commands_of(code: str) -> Iterator[list[str]]:
    """The words after ``tenon`` of each command in a line."""
    for part in SEPARATOR.split(code):
        try:
            words = shlex.split(part)
        except ValueError:
            words = part.split()
        while words and ASSIGNMENT.fullmatch(words[0]):
            del words[0]
        if words and words[0].removeprefix(".venv/bin/") == "tenon":
            yield words[1:]
        elif words[:2] == ["kubectl", "tenon"]:
            yield words[2:]


def fault_of(words: list[str]) -> str | None:
    """What does not exist in the command: a subcommand or an option."""
    command = all_commands()
    path = ["tenon"]
    for word in words:
        if not hasattr(command, "list_commands") or word.startswith("-") or word in PLACEHOLDERS or word == "...":
            break
        child = command.get_command(None, word.split("|")[0].rstrip(","))
        if child is None:
            return f"{' '.join(path)} has no command {word}"
        command = child
        path.append(word)
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    named_options = {match[1] for word in words[len(path) - 1 :] if (match := OPTION.fullmatch(word))}
    unknown_options = sorted(named_options - options - HELP)
    return f"{' '.join(path)} has no option {', '.join(unknown_options)}" if unknown_options else None


@cache
def charts_values() -> tuple[dict[str, Any], ...]:
    files = (ROOT / "deploy" / name / "values.yaml" for name in ("chart", "chart-crd"))
    return tuple(yaml.safe_load(file.read_text()) for file in files)


@cache
def all_commands() -> Any:
    return get_command(app)


def has_value(values: Any, path: list[str]) -> bool:
    """Whether a chart has the value. Below an empty mapping, everything may be set."""
    if not path or values == {}:
        return True
    return isinstance(values, dict) and path[0] in values and has_value(values[path[0]], path[1:])


def faulty_set(code: str, settings: frozenset[str]) -> Iterator[str]:
    """What ``--set`` names in a line, and neither the worker nor a chart has."""
    for name in VALUE.findall(code):
        if name.isupper():
            if name not in settings | PLACEHOLDERS:
                yield name
        elif not any(has_value(values, re.split(r"(?<!\\)\.", name)) for values in charts_values()):
            yield name


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_command_and_option_exists(document: Path) -> None:
    commands = [words for code in code_of(text_of(document)) for words in commands_of(code)]
    assert [fault for words in commands if (fault := fault_of(words))] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_value_that_a_command_sets_exists(document: Path) -> None:
    settings = frozenset(SETTING.findall(text_of(ROOT / "docs" / "all-settings.md")))
    assert [name for code in code_of(text_of(document)) for name in faulty_set(code, settings)] == []


@pytest.mark.parametrize(
    ("code", "faults"),
    [
        ("tenon node list --blocked -o json | jq .nodes", []),
        ("kubectl -n tenon exec deployment/tenon -- tenon doctor --no-such", ["tenon doctor has no option --no-such"]),
        ("TENON_RECORD=x tenon histroy NODE", ["tenon has no command histroy"]),
        ("tenon rollout start|approve NODEPOOL", []),
        ("kubectl -n tenon get pods", []),
    ],
)
def test_what_does_not_exist_in_a_command_is_found(code: str, faults: list[str]) -> None:
    assert [fault for words in commands_of(code) if (fault := fault_of(words))] == faults


def test_a_value_that_no_chart_has_is_found() -> None:
    code = (
        "helm upgrade tenon deploy/chart --set settings.batchDuration=1s "
        '--set "serviceAccount.annotations.a\\.b/c=d" --set NODE_CHARGE=1'
    )
    assert list(faulty_set(code, frozenset({"NODE_CHARGE"}))) == ["settings.batchDuration"]


NEW_CLUSTER = ROOT / "docs" / "eks.md"
CRDS_APPLIED = re.compile(r"kubectl apply --server-side (?:--force-conflicts )?-f \S*crds\b")


def test_crds_of_helm_or_karpenter_are_applied_over_by_force() -> None:
    """Helm owns the fields of those that it made, and the leader some of the webhook: without force, both conflict."""
    sources = [path for folder in ("cli", "deploy") for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts = {path: path.read_text(errors="ignore") for path in {*sources, *DOCUMENTS} - {NEW_CLUSTER}}
    commands = {name_of(path): CRDS_APPLIED.findall(text) for path, text in texts.items()}
    assert {"cli/diagnosis/kubernetes.py", "deploy/chart/templates/NOTES.txt"} <= {
        name for name, lines in commands.items() if lines
    }
    assert [name for name, lines in commands.items() if any("--force-conflicts" not in line for line in lines)] == []


def test_the_removal_of_everything_spares_the_objects_of_eks_auto_mode() -> None:
    """They are of the same kinds, so `--all` and the CRDs mean them too."""
    section = (
        text_of(ROOT / "docs" / "operations.md").partition("\n## How do I remove Tenon?\n")[2].partition("\n## ")[0]
    )
    before, command, _ = section.partition("    kubectl delete nodepools --all")
    assert command
    assert "EKS Auto Mode" in before
    features = text_of(ROOT / "docs" / "features.md").partition("\n## Can Tenon run next to EKS Auto Mode?\n")[2]
    assert "(operations.md#how-do-i-remove-tenon)" in features.partition("\n## ")[0]


def test_many_commands_are_found() -> None:
    operations = text_of(ROOT / "docs" / "operations.md")
    assert len([words for code in code_of(operations) for words in commands_of(code)]) > 50
