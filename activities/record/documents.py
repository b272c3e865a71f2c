"""Stores of documents by name: the inputs of plans, which are too large for lines of the record.

A document's name has its digest, so a document never changes and may be written twice. All calls block.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from tenon.errors import TenonError

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

FOLDER_BYTES = 256 * 2**20
"""The default size of all documents of a folder."""
SPARED = 0.9
"""To which part of that the folder is reduced when it is full, so that not each document removes another one."""
MAX_DOCUMENT = 4 * 2**20
"""Bytes. A larger document is not one of Tenon's."""
_PARTIAL = ".partial-"


class DocumentError(TenonError):
    """A document cannot be written or read. The message says why, without a period."""


class DocumentStore(Protocol):
    """Keeps documents."""

    def put(self, name: str, document: bytes) -> None:
        """Write a document, or note that it is still used.

        Raises:
            DocumentError: it cannot be written.
        """
        ...

    def get(self, name: str) -> bytes:
        """Return a document.

        Raises:
            DocumentError: it does not exist, or cannot be read.
        """
        ...


class FolderStore:
    """Documents in a folder of bounded size. If it is full, those that were used longest ago are deleted."""

    def __init__(self, folder: Path, most_bytes: int = FOLDER_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._bytes: int | None = None
        """The size of all documents as far as this process knows; None before the first look."""
        self._lock = Lock()

    def put(self, name: str, document: bytes) -> None:
        """Write a document. One that exists becomes the newest."""
        path = self._folder / name
        try:
            with self._lock:
                if path.exists():
                    os.utime(path)
                    return
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with tempfile.NamedTemporaryFile(dir=path.parent, prefix=_PARTIAL, delete=False) as partial:
                    partial.write(document)
                Path(partial.name).replace(path)  # a reader never sees a part of it
                self._make_room(len(document))
        except OSError as error:
            raise DocumentError(f"{path} cannot be written: {error.strerror or error}") from None

    def get(self, name: str) -> bytes:
        """Return a document."""
        path = self._folder / name
        try:
            with path.open("rb") as file:
                return file.read(MAX_DOCUMENT)
        except FileNotFoundError:
            raise DocumentError(f"{path} does not exist") from None
        except OSError as error:
            raise DocumentError(f"{path} cannot be read: {error.strerror or error}") from None

    def _make_room(self, size: int) -> None:
        """Count a new document, and delete the oldest ones if there are too many bytes."""
        if self._bytes is not None and self._bytes + size <= self._most_bytes:
            self._bytes += size
            return
        files = [(path, path.stat()) for path in self._folder.rglob("*") if path.is_file()]
        total = sum(status.st_size for _, status in files)
        if total > self._most_bytes:
            for path, status in sorted(files, key=lambda file: file[1].st_mtime):
                path.unlink(missing_ok=True)
                total -= status.st_size
                if total <= SPARED * self._most_bytes:
                    break
        self._bytes = total


class BucketStore:
    """Documents in a bucket of S3. The rules of its lifecycle decide how long they stay."""

    def __init__(self, make_client: Callable[[], S3Client], bucket: str, prefix: str) -> None:
        """``prefix``: the beginning of the keys, with a slash at its end. The client is made for the first call."""
        self._make_client = make_client
        self._bucket = bucket
        self._prefix = prefix

    @cached_property
    def _client(self) -> S3Client:
        return self._make_client()

    def put(self, name: str, document: bytes) -> None:
        """Write a document."""
        from botocore.exceptions import BotoCoreError, ClientError

        key = self._prefix + name
        try:
            self._client.put_object(
                Bucket=self._bucket, Key=key, Body=document, ContentType="application/json", ContentEncoding="gzip"
            )
        except (BotoCoreError, ClientError) as error:
            raise DocumentError(f"s3://{self._bucket}/{key} cannot be written: {error}") from None

    def get(self, name: str) -> bytes:
        """Return a document."""
        from botocore.exceptions import BotoCoreError, ClientError

        key = self._prefix + name
        try:
            return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read(MAX_DOCUMENT)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in ("NoSuchKey", "404"):
                raise DocumentError(f"s3://{self._bucket}/{key} does not exist") from None
            raise DocumentError(f"s3://{self._bucket}/{key} cannot be read: {error}") from None
        except BotoCoreError as error:
            raise DocumentError(f"s3://{self._bucket}/{key} cannot be read: {error}") from None
