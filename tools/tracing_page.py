"""Generates the tables of the page about traces, so that no span and no attribute is missing or out of date."""

from __future__ import annotations

from pathlib import Path

from activities.tracing.catalogue import TRACED, Attribute, Operation, Phase

PAGE = Path("docs/tracing.md")
MARK = "<!-- Made by `make generate` from activities/tracing/catalogue.py"
_REQUESTS = """| SERVICE.ACTION, such as `EC2.CreateFleet` | any of the above | One attempt of a request to AWS |
| VERB RESOURCE, such as `create pods/binding` | any of the above | A request to the API server: `get`, `list`, \
`create`, `update`, `patch` or `delete` |
"""


def tracing_page() -> str:
    """Return the page: its prose as it is, and the tables."""
    prose, mark, rest = PAGE.read_text(encoding="utf-8").partition(MARK)
    line = rest.partition("\n")[0]
    unrecorded = ", ".join(f"`{name}`" for name, traced in TRACED.items() if traced.operation is None)
    spans, attributes = "".join(_spans()), "".join(f"| `{name}` | {name.meaning} |\n" for name in Attribute)
    return (
        f"{prose}{mark}{line}\n"
        f"\n## Which spans exist?\n\n| span | parent | means |\n|---|---|---|\n{spans}{_REQUESTS}"
        f"\nThe activities {unrecorded} have no span, because they only wait.\n"
        f"\n## Which attributes exist?\n\n| attribute | means |\n|---|---|\n{attributes}"
    )


def _spans() -> list[str]:
    rows = [f"| `{operation}` | none | {operation.meaning} |\n" for operation in Operation]
    for name, traced in TRACED.items():
        length = "; without length, because it mostly waits" if traced.waits else ""
        if traced.operation is not None:
            rows.append(f"| `{name}` | `{traced.operation}` | The activity of this name{length} |\n")
    for phase in Phase:
        parents = ", ".join(f"`{parent}`" for parent in phase.parents)
        rows.append(f"| `{phase}` | {parents} | {phase.meaning} |\n")
    return rows
