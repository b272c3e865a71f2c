"""Puts entries into an S3 bucket, as compressed objects of one hour each.

The keys are ``PREFIX/CLUSTER/2026/11/27/06/20261127T061501-DIGEST.jsonl.gz``, so they are in the order of time, and a
reader lists only those of its window. The digest is that of the content: if an answer of S3 is lost, the object is put
again under the same key.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from activities.ec2 import request_metrics
from activities.ec2.service_model import ServiceModelLoader
from tenon.record.entries import Entry
from tenon.record.lines import line_of
from worker.record.channel import SinkError

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

SUFFIX = ".jsonl.gz"


class S3Sink:
    """Puts one object for each batch."""

    name = "s3"
    batch = 500
    gathers_for = 60.0

    def __init__(self, bucket: str, prefix: str, region: str) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._region = region

    def write(self, entries: Sequence[Entry]) -> None:
        """Put the entries, those of each cluster and hour into one object.

        Raises:
            SinkError: S3 refused an object or did not answer.
        """
        in_order = sorted(entries, key=lambda entry: (entry.cluster, entry.at))
        for (cluster, hour), of_hour in groupby(in_order, key=lambda entry: (entry.cluster, hour_of(entry.at))):
            self._put(folder(self._prefix, cluster) + hour, list(of_hour))

    def close(self) -> None:
        """Do nothing: the client holds only idle connections."""

    def _put(self, hour_folder: str, entries: Sequence[Entry]) -> None:
        content = "".join(f"{line_of(entry)}\n" for entry in entries).encode()
        began = entries[0].at.astimezone(UTC)
        key = f"{hour_folder}{began:%Y%m%dT%H%M%S}-{hashlib.sha256(content).hexdigest()[:16]}{SUFFIX}"
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=key,
                Body=gzip.compress(content, mtime=0),
                ContentType="application/gzip",
            )
        except (ClientError, BotoCoreError) as error:
            raise SinkError(
                f"s3://{self._bucket}/{key} cannot be written ({error}): check that the bucket exists, and that the "
                "worker's role allows s3:PutObject there"
            ) from None

    @cached_property
    def _client(self) -> S3Client:
        return s3_client(self._region)


def s3_client(region: str) -> S3Client:
    """Return a client of S3, at AWS or at AWS_ENDPOINT_URL."""
    core = botocore.session.get_session()
    request_metrics.attach(core)
    core.register_component("data_loader", ServiceModelLoader())
    session: Any = boto3.Session(region_name=region or None, botocore_session=core)
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 3},
        connect_timeout=5,
        read_timeout=30,
        user_agent_extra="tenon",
    )
    client: S3Client = session.client("s3", config=config)
    return client


def folder(prefix: str, cluster: str) -> str:
    """Return the beginning of the keys of a cluster, with a slash at its end."""
    return "/".join(filter(None, (prefix, quote(cluster, safe="")))) + "/"


def hour_of(at: datetime) -> str:
    """Return the part of a key that says the hour, with a slash at its end."""
    return at.astimezone(UTC).strftime("%Y/%m/%d/%H/")
