"""Which sink of the record keeps the inputs of plans, and where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.moto_account import moto_account
from tests.tenon.scheduling.builders import pod, pool, problem
from worker.record.plan_inputs import open_plan_inputs


@pytest.fixture
def archive() -> Iterator[str]:
    with moto_account():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="archive")
        yield "archive"


async def test_a_file_has_them_in_a_folder_next_to_it(tmp_path: Path) -> None:
    inputs = open_plan_inputs(f"stdout,file://{tmp_path}/record.jsonl", cluster="c", region="us-east-1")
    assert inputs is not None
    digest = (await inputs.keep(problem([pod("a")], pool()))).digest
    assert (tmp_path / "record.jsonl.inputs" / "plans" / digest[:2] / f"{digest}.json.gz").exists()


async def test_a_bucket_has_them_below_the_cluster(archive: str) -> None:
    inputs = open_plan_inputs(f"s3://{archive}/tenon", cluster="my/cluster", region="us-east-1")
    assert inputs is not None
    digest = (await inputs.keep(problem([pod("a")], pool()))).digest
    listing = boto3.client("s3", region_name="us-east-1").list_objects_v2(Bucket=archive)
    keys = [item["Key"] for item in listing["Contents"]]
    assert f"tenon/my%2Fcluster/inputs/plans/{digest[:2]}/{digest}.json.gz" in keys
    assert len(keys) == 2
    assert [pod.name for pod in inputs.read(digest).pods] == ["a"]


@pytest.mark.parametrize("setting", ["none", "stdout", "stdout,otlp"])
def test_without_a_file_and_a_bucket_no_inputs_are_kept(setting: str) -> None:
    assert open_plan_inputs(setting, cluster="c", region="us-east-1") is None
