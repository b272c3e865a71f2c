"""`make generate`: writes the files that are generated from code. With ``--check`` it fails if one of them is stale."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from cli.application import create_app
from tenon.apis.crd import custom_resource_definitions
from tools.cloudformation import TEMPLATE, template_text
from tools.helm_values import chart_texts
from tools.reference_pages import page_texts
from tools.temporal_costs import PAGE, page_text

app = create_app()

HEADER = "# Made by `make generate` from tenon/apis. Change the models there, not this file.\n"
CRD_DIRECTORY = Path("deploy/crds")


def crd_texts() -> dict[str, str]:
    """Text of every CRD manifest, by file name."""
    return {
        name: HEADER + yaml.safe_dump(definition, sort_keys=False, width=120, allow_unicode=True)
        for name, definition in custom_resource_definitions().items()
    }


@app.command()
def generate(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a file is stale.")] = False,
    directory: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the CRD manifests are.")] = CRD_DIRECTORY,
) -> None:
    """Write the CustomResourceDefinitions, the CloudFormation template, parts of the Helm chart and of docs/."""
    crds = {directory / name: text for name, text in crd_texts().items()}
    texts = crds | chart_texts() | {TEMPLATE: template_text()} | page_texts() | {PAGE: page_text()}
    stale = [path for path, text in texts.items() if not _holds(path, text)]
    if not check:
        for path in stale:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(texts[path], encoding="utf-8")
            except OSError as error:
                typer.echo(f"{error.filename}: cannot be written: {error.strerror}", err=True)
                raise typer.Exit(2) from None
            typer.echo(f"wrote {path}")
        return
    if stale:
        listed = ", ".join(str(path) for path in stale)
        typer.echo(f"stale: {listed}. Run `make generate` and commit the result.", err=True)
        raise typer.Exit(1)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


if __name__ == "__main__":
    app()
