"""The parts of the build: sources, layers, the list of components, and the Dockerfile's equality."""

from __future__ import annotations

import os
import re
import tarfile
from pathlib import Path

import pytest

from deploy.image import debian, oci, sbom, wheels
from deploy.image.commands import ImageError, require, run
from deploy.image.debian import Package, source_lines
from tests.image.container import may_mount

DOCKERFILE = Path(__file__).parents[2] / "deploy/Dockerfile"
HERE = "Debian bookworm http://mirror.example/debian/ main"
SECURITY = "Debian bookworm-security http://mirror.example/security/ main"


def test_sources_are_those_of_debian_for_the_release() -> None:
    others = [
        "Debian bookworm-backports http://mirror.example/debian/ main",
        "Debian bookworm http://mirror.example/debian/ contrib",
        "Debian trixie http://mirror.example/debian/ main",
        "Docker bookworm http://docker.example/ main",
        " nodistro http://node.example/ main",
    ]
    assert source_lines([HERE, *others, SECURITY, HERE], None) == [
        "deb http://mirror.example/debian/ bookworm main",
        "deb http://mirror.example/security/ bookworm-security main",
    ]


def test_sources_name_the_keyring_of_debian_if_it_is_installed() -> None:
    assert source_lines([HERE], Path("/keys.gpg")) == [
        "deb [signed-by=/keys.gpg] http://mirror.example/debian/ bookworm main"
    ]


def test_a_machine_without_the_release_uses_the_default_of_mmdebstrap() -> None:
    assert source_lines([SECURITY, "Ubuntu noble http://ubuntu.example/ main"], None) == []


def test_missing_programs_are_named_with_the_command_that_installs_them() -> None:
    with pytest.raises(ImageError) as raised:
        require({"git": "git", "no-such-a": "one", "no-such-b": "two"})
    assert str(raised.value) == (
        "The image needs `no-such-a`, `no-such-b`: "
        "run `apt-get install --no-install-recommends one two` as root on Debian."
    )


@pytest.mark.integration
def test_a_program_that_fails_says_what_it_printed() -> None:
    with pytest.raises(ImageError, match=r"^`sh -c echo no room >&2; exit 3` failed with status 3: no room$"):
        run("sh", "-c", "echo no room >&2; exit 3")


def filled(folder: Path, umask: int, names: list[str]) -> Path:
    """A folder with files that were written in an order and with a umask."""
    before = os.umask(umask)
    try:
        (folder / "tmp").mkdir(parents=True)
        for name in names:
            (folder / name).write_text(name)
        (folder / "program").chmod(0o4711)
        (folder / "link").symlink_to("program")
    finally:
        os.umask(before)
    return folder


def test_a_layer_does_not_depend_on_the_machine(tmp_path: Path) -> None:
    path = filled(tmp_path / "one", 0o022, ["program", "text", "tmp/a"])
    two = filled(tmp_path / "two", 0o077, ["tmp/a", "text", "program"])
    os.utime(two / "text", (1, 1))
    assert oci.pack(path, tmp_path / "one.tar") == len("program" + "text" + "tmp/a")
    oci.pack(two, tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as layer:
        modes = {entry.name: entry.mode for entry in layer}
        owners = {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in layer}
    assert modes == {"link": 0o777, "program": 0o755, "text": 0o644, "tmp": 0o1777, "tmp/a": 0o644}
    assert owners == {(0, 0, "", "")}


def test_the_list_of_components_names_debian_packages_as_scanners_do(tmp_path: Path) -> None:
    libc = Package("libc6", "2.36-9+deb12u14", "amd64", "glibc")
    python = {"type": "library", "bom-ref": "numpy==2", "name": "numpy", "version": "2"}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [python]}
    merged = sbom.with_debian(document, [libc])
    assert [component.get("purl") for component in merged["components"]] == [
        None,
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64&distro=debian-12&upstream=glibc",
    ]
    sbom.write(merged, tmp_path / "list.json")
    sbom.write(merged, tmp_path / "again.json")
    assert (tmp_path / "list.json").read_text() == (tmp_path / "again.json").read_text()


def site_with(folder: Path, name: str, version: str) -> Path:
    """A folder that has the record of an installed package."""
    record = folder / f"{name}-{version}.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    return folder


@pytest.mark.integration
def test_cyclonedx_lists_the_packages_of_the_image_and_imports_its_own(tmp_path: Path) -> None:
    sites = [site_with(tmp_path / "deps", "attrs", "0.0.1"), site_with(tmp_path / "app", "project", "0.1.0")]
    (sites[0] / "attr.py").write_text("raise SystemExit('imported from the image')")
    project = tmp_path / "source/pyproject.toml"
    project.parent.mkdir()
    project.write_text('[project]\nname = "project"\nversion = "0.1.0"\ndependencies = ["attrs"]\n')
    first, second = (sbom.python_packages(sites, project, created) for created in (1, 2))
    assert [(component["name"], component["version"]) for component in first["components"]] == [("attrs", "0.0.1")]
    assert first["metadata"]["component"]["name"] == "project"
    assert first["metadata"]["timestamp"] == "1970-01-01T00:00:01+00:00"
    assert {"ref": "root-component", "dependsOn": ["attrs==0.0.1"]} in first["dependencies"]
    first["metadata"]["timestamp"] = second["metadata"]["timestamp"]
    assert first == second
    project.write_text('[project]\nname = "project"\nversion = "0.2.0"\n')
    with pytest.raises(ImageError, match="listed other packages than the image has"):
        sbom.python_packages(sites, project, 1)


def test_a_list_of_components_that_is_not_cyclonedx_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="not valid CycloneDX"):
        sbom.write({"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"name": "x"}]}, tmp_path / "list")
    assert list(tmp_path.iterdir()) == []


def test_only_root_with_the_right_to_mount_may_create_a_container() -> None:
    assert not may_mount("Name:\tpython\nCapEff:\t0000000000000000\n")
    assert may_mount("CapEff:\t0000000000200000\n") is (os.geteuid() == 0)


def instructions(name: str, text: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", text, re.MULTILINE)


def test_the_dockerfile_describes_the_same_image() -> None:
    text = DOCKERFILE.read_text()
    build, _, final = text.rpartition("\nFROM ")
    assert set(instructions("FROM", text)) == {
        f"python:{debian.PYTHON}-slim-{debian.RELEASE} AS build",
        f"python:{debian.PYTHON}-slim-{debian.RELEASE}",
    }
    copied = {word for line in instructions("COPY", build) if "--from" not in line for word in line.split()[:-1]}
    assert copied == set(wheels.SOURCES)
    assert instructions("USER", final) == [oci.USER]
    assert instructions("WORKDIR", final) == [oci.FOLDER]
    assert instructions("ENTRYPOINT", final) == [f'["{oci.ENTRYPOINT}"]']
    assert instructions("CMD", final) == [f'["{oci.COMMAND}"]']
    (environment,) = instructions("ENV", final)
    variables = dict(word.split("=", 1) for word in environment.split())
    assert variables.keys() == oci.ENVIRONMENT.keys()
    assert variables | {"PATH": oci.ENVIRONMENT["PATH"]} == oci.ENVIRONMENT
