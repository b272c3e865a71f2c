"""The parts of `make release`: charts, checksums, signatures, and the image for several architectures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.image import oci
from deploy.image.commands import ImageError
from deploy.release import charts, signing
from deploy.release.__main__ import differences
from sandbox import helm

pytestmark = pytest.mark.integration

DEPLOY = Path(__file__).parents[2] / "deploy"
DIGEST = f"sha256:{'a1' * 32}"


def test_a_chart_names_the_image_by_its_digest_and_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    moved = shutil.copytree(DEPLOY / "chart", tmp_path / "moved")
    os.utime(moved / "values.yaml", (1, 1))
    (tmp_path / "again").mkdir()
    archive = charts.pack(DEPLOY / "chart", tmp_path, "0.1.0", DIGEST)
    again = charts.pack(moved, tmp_path / "again", "0.1.0", DIGEST)
    assert archive.name == "tenon-0.1.0.tgz"
    assert archive.read_bytes() == again.read_bytes()
    rendered = yaml.safe_load_all(helm.template(archive, "--set", "settings.clusterName=orders"))
    (deployment,) = [item for item in rendered if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"ghcr.io/tenon-sh/tenon:0.1.0@{DIGEST}"


def test_the_chart_of_the_definitions_has_them_all(tmp_path: Path) -> None:
    archive = charts.pack(DEPLOY / "chart-crd", tmp_path, "0.1.0")
    rendered = list(yaml.safe_load_all(helm.template(archive)))
    names = {f"{item['spec']['group']}_{item['spec']['names']['plural']}.yaml" for item in rendered if item}
    assert names == {path.name for path in (DEPLOY / "crds").iterdir()}


def test_values_without_a_place_for_the_digest_are_refused() -> None:
    with pytest.raises(ImageError, match="must have the line"):
        charts.with_digest("controller: {}\n", DIGEST)


def layout_of(folder: Path, content: str) -> Path:
    """A folder with an image that has one blob, its manifest."""
    (folder / "blobs/sha256").mkdir(parents=True)
    (folder / "blobs/sha256" / content).write_text(content)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    manifest = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": f"sha256:{content}", "size": 1}
    (folder / "index.json").write_text(json.dumps({"manifests": [manifest | {"annotations": {"a": "b"}}]}))
    return folder


def test_two_architectures_become_one_image_with_one_digest(tmp_path: Path) -> None:
    layouts = {name: layout_of(tmp_path / name, name) for name in ("amd64", "arm64")}
    digest = oci.join(layouts, tmp_path / "joined", name="localhost/tenon", tag="0.1.0")
    (entry,) = json.loads((tmp_path / "joined/index.json").read_text())["manifests"]
    assert entry["digest"] == digest
    assert entry["annotations"][oci.CONTAINERD_NAME] == "localhost/tenon:0.1.0"
    index = tmp_path / "joined/blobs" / digest.replace(":", "/")
    assert f"sha256:{signing.checksum(index)}" == digest
    assert {
        manifest["platform"]["architecture"]: manifest["digest"]
        for manifest in json.loads(index.read_text())["manifests"]
    } == {"amd64": "sha256:amd64", "arm64": "sha256:arm64"}
    assert {path.name for path in index.parent.iterdir()} == {"amd64", "arm64", index.name}


def test_a_difference_between_two_builds_is_named(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "wheel").write_text("same")
        (tmp_path / folder / "chart").write_text(folder)
        signing.write_sums(tmp_path / folder)
    (tmp_path / "one" / f"{signing.SUMS}.minisig").write_text("not compared")
    assert differences(tmp_path / "one", tmp_path / "two") == ["chart"]
    checked = subprocess.run(["sha256sum", "--check", "--quiet", signing.SUMS], cwd=tmp_path / "one", check=False)
    assert checked.returncode == 0


def test_without_a_key_the_release_says_that_it_is_unsigned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(signing.KEY, raising=False)
    assert "unsigned" in signing.name_key(tmp_path)
    signing.sign(signing.write_sums(tmp_path), "0.1.0")
    assert {path.name for path in tmp_path.iterdir()} == {signing.SUMS}


@pytest.mark.skipif(shutil.which("minisign") is None, reason="The test of signatures needs minisign, a Debian package.")
def test_users_can_verify_the_signature_of_the_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, public = tmp_path / "secret.key", tmp_path / "public.key"
    subprocess.run(["minisign", "-G", "-W", "-p", public, "-s", key], check=True, capture_output=True)
    release = tmp_path / "release"
    release.mkdir()
    monkeypatch.setenv(signing.KEY, str(key))
    assert public.read_text().splitlines()[1] in signing.name_key(release)
    signing.sign(signing.write_sums(release), "0.1.0")
    verify = ["minisign", "-V", "-p", str(public), "-m", str(release / signing.SUMS)]
    good = subprocess.run(verify, check=False, capture_output=True, text=True)
    assert good.returncode == 0
    assert "Tenon 0.1.0" in good.stdout
    (release / signing.SUMS).write_text("0" * 64 + "  wheel\n")
    assert subprocess.run(verify, check=False, capture_output=True).returncode != 0
