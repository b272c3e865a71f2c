"""``tenon convert``: converts manifests of any Karpenter version to v1, with a comment on every change.

With ``--from-node-groups``, it converts node groups of Cluster Autoscaler as AWS describes them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.application import create_app, examples
from cli.converting.node_groups import (
    NodeGroupError,
    as_manifests,
    faults_of,
    read_account,
    read_descriptions,
)
from cli.simulating.files import NAME_OF_STANDARD_INPUT, Filenames, read_named_texts, read_texts
from tenon.manifests.converting import ConvertedManifests, ConvertedObject, convert, joined
from tenon.manifests.documents import Diagnostic
from tenon.manifests.faults import ManifestError, Source, one_line

app = create_app()

UNUSABLE = 2


class Form(StrEnum):
    """Output format of the manifests."""

    yaml = "yaml"
    json = "json"


@app.command(
    name="convert",
    epilog=examples(
        "tenon convert -f provisioner.yaml > nodepool.yaml",
        "tenon convert --from-node-groups --cluster prod > nodepools.yaml",
        "aws eks describe-nodegroup --cluster-name prod --nodegroup-name web \\",
        "  | tenon convert --from-node-groups -f -",
    ),
)
def run(
    filename: Filenames = None,
    output: Annotated[Form, typer.Option("-o", "--output", help="Output format.")] = Form.yaml,
    output_dir: Annotated[
        Path | None,
        typer.Option("-w", "--output-dir", metavar="FOLDER", help="Write each file under its name into this folder."),
    ] = None,
    from_node_groups: Annotated[
        bool,
        typer.Option(
            "--from-node-groups",
            help="Convert node groups into NodePools and EC2NodeClasses: those of --cluster, as EKS and Auto Scaling "
            "describe them, or those of files that the AWS CLI wrote.",
        ),
    ] = False,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="The EKS cluster whose node groups are converted.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="REGION", help="Its AWS region.")] = None,
) -> None:
    """Convert Karpenter's manifests of any version to v1, or node groups. Other objects stay as they are."""
    faults: list[ManifestError] = []
    if from_node_groups:
        if output_dir is not None:
            _stop(["tenon convert: --output-dir does not go with --from-node-groups: redirect the output"])
        _convert_node_groups(filename or [], cluster, region, output)
        return
    if cluster or region:
        _stop(["tenon convert: --cluster and --region go with --from-node-groups"])
    if not filename:
        _stop(["tenon convert: name manifests with -f"])
    converted = convert(read_named_texts(filename or [], faults))
    faulty = {finding.file for finding in converted.findings}
    if output_dir is None:
        parts = [part for parts in converted.files.values() for part in parts]
        if not (_is_nothing(output, parts) and (faulty or faults)):
            sys.stdout.write(_written(output, parts))
    else:
        sound = {
            name: parts
            for name, parts in converted.files.items()
            if not (_is_nothing(output, parts) and name in faulty)
        }
        faults += _write(output, output_dir, sound)
    if output is Form.json:
        _print_notes(converted)
    _stop([*map(str, faults), *map(_line, converted.findings)])


def _convert_node_groups(files: Sequence[str], cluster: str | None, region: str | None, output: Form) -> None:
    """Print the manifests of node groups. What AWS or the files do not say is a note, and a fault what v1 refuses."""
    faults: list[ManifestError] = []
    if bool(files) == bool(cluster):
        _stop(["tenon convert: name the cluster with --cluster, or files that the AWS CLI wrote with -f"])
    try:
        described = read_account(cluster, region) if cluster else read_descriptions(read_texts(files, faults), faults)
    except NodeGroupError as error:
        _stop([str(error)])
        return
    groups = described.converted(faults)
    if output is Form.yaml:
        sys.stdout.write(as_manifests(groups))
    else:
        items = [body for group in groups for body in (group.node_class, group.node_pool)]
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2))
        for group in groups:
            for note in group.notes:
                print(one_line(f"note: node group {group.name}: {note}"), file=sys.stderr)
    if not groups and not faults:
        faults.append(ManifestError(Source(cluster or "the input"), "has no node groups"))
    _stop([*map(str, faults), *map(one_line, faults_of(groups))])


def _is_nothing(form: Form, parts: Sequence[ConvertedObject]) -> bool:
    return not any(part.body is not None or form is Form.yaml for part in parts)


def _written(form: Form, parts: Sequence[ConvertedObject]) -> str:
    if form is Form.yaml:
        return joined(parts)
    items = [part.body for part in parts if part.body is not None]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2, ensure_ascii=False) + "\n"


def _write(form: Form, folder: Path, files: Mapping[str, Sequence[ConvertedObject]]) -> list[ManifestError]:
    """Write the files and return a fault for each one that cannot be written. No input is overwritten."""
    faults = []
    inputs = [Path(name) for name in files if Path(name).exists()]
    sources_by_target: dict[Path, str] = {}
    for name, parts in files.items():
        source = Path("stdin.yaml" if name == NAME_OF_STANDARD_INPUT else name)
        target = folder / (source.stem + (".json" if form is Form.json else source.suffix or ".yaml"))
        if target in sources_by_target:
            faults.append(
                ManifestError(
                    Source(name), f"has the name of {sources_by_target[target]}: convert them into different folders"
                )
            )
            continue
        sources_by_target[target] = name
        try:
            overwritten = [input_file for input_file in inputs if target.exists() and target.samefile(input_file)]
            if overwritten:
                where = "is in the output folder itself" if source in overwritten else f"would replace {overwritten[0]}"
                faults.append(ManifestError(Source(name), f"{where} and is not written: choose another output folder"))
                continue
            folder.mkdir(parents=True, exist_ok=True)
            target.write_text(_written(form, parts), encoding="utf-8")
        except (OSError, ValueError) as error:
            faults.append(
                ManifestError(Source(str(target)), f"cannot be written: {getattr(error, 'strerror', None) or error}")
            )
    return faults


def _print_notes(converted: ConvertedManifests) -> None:
    """Print the notes that YAML output contains as comments."""
    for parts in converted.files.values():
        for part in parts:
            for note in part.notes:
                print(one_line(f"note: {part.where}: {note}"), file=sys.stderr)


def _line(finding: Diagnostic) -> str:
    return one_line("; ".join([str(finding), *(f"write {line}" for line in finding.fixed_lines)]))


def _stop(lines: Sequence[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)
    if lines:
        raise typer.Exit(UNUSABLE)
