"""Encrypted payloads: what is hidden, how keys are replaced, and what is said when one is missing or wrong."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path

import pytest
import yaml
from prometheus_client import REGISTRY
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from worker.runtime.temporal.encrypted_payloads import ENCRYPTION_CONFIG, PayloadCodecError
from worker.runtime.temporal.payload_codec import EncryptionCodec
from worker.runtime.temporal.temporal_client import TemporalError, connect
from worker.runtime.temporal.temporal_plugin import converter

UNREADABLE = "tenon_payloads_unreadable_total"
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"i-0123456789abcdef0"')
SECRETS = {name: base64.b64encode(os.urandom(32)).decode() for name in ("old", "new")}


def write(path: Path, *names: str, encrypt: bool = True) -> Path:
    """Replace the file, as the kubelet does when a Secret changes."""
    document = {"keys": [{"name": name, "secret": SECRETS[name]} for name in names], "encrypt": encrypt}
    scratch = path.with_suffix(".new")
    scratch.write_text(yaml.safe_dump(document))
    scratch.replace(path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


async def test_nothing_of_a_payload_can_be_read_without_the_key(file: Path) -> None:
    codec = EncryptionCodec(write(file, "old"))
    first, second = await codec.encode([PLAIN, PLAIN])
    assert first.data != second.data, "equal payloads look equal"
    for item in (first, second):
        assert b"i-0123" not in item.SerializeToString()
        assert dict(item.metadata) == {"encoding": b"binary/encrypted", "encryption-key-id": b"old"}
    assert await codec.decode([first, second]) == [PLAIN, PLAIN]


async def test_what_was_never_encrypted_passes(file: Path) -> None:
    """Workflows that were open before have such payloads."""
    assert await EncryptionCodec(write(file, "old")).decode([PLAIN]) == [PLAIN]


async def test_a_new_key_in_front_encrypts_and_the_old_one_still_decrypts_without_a_restart(file: Path) -> None:
    codec = EncryptionCodec(write(file, "old"))
    (before,) = await codec.encode([PLAIN])
    write(file, "new", "old")
    (after,) = await codec.encode([PLAIN])
    assert (before.metadata["encryption-key-id"], after.metadata["encryption-key-id"]) == (b"old", b"new")
    assert await codec.decode([before, after]) == [PLAIN, PLAIN]
    write(file, "new")
    unreadable = REGISTRY.get_sample_value(UNREADABLE) or 0.0
    with pytest.raises(
        PayloadCodecError, match=f"^A payload is encrypted with the key old, which {file} lacks: add it.$"
    ):
        await codec.decode([before])
    assert REGISTRY.get_sample_value(UNREADABLE) == unreadable + 1, "an alert asks for it"


async def test_encryption_ends_with_keys_that_only_decrypt(file: Path) -> None:
    codec = EncryptionCodec(write(file, "old"))
    (before,) = await codec.encode([PLAIN])
    write(file, "old", encrypt=False)
    assert await codec.encode([PLAIN]) == [PLAIN]
    assert await codec.decode([before]) == [PLAIN]


@pytest.mark.parametrize("change", ["data", "key", "short"])
async def test_a_payload_that_was_changed_is_refused(file: Path, change: str) -> None:
    codec = EncryptionCodec(write(file, "old", "new"))
    (item,) = await codec.encode([PLAIN])
    if change == "data":
        item.data = item.data[:-1] + bytes([item.data[-1] ^ 1])
    elif change == "key":
        item.metadata["encryption-key-id"] = b"new"
    else:
        item.data = item.data[:5]
    with pytest.raises(
        PayloadCodecError, match=r"^A payload cannot be decrypted with the key (old|new): it was changed"
    ):
        await codec.decode([item])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("keys: [", "it is not YAML"),
        ("keys: []", "there is no key"),
        ("keys: [{name: a, secret: c2hvcnQ=}]", "keys.0.secret: the secret is not base64 of 16, 24 or 32 bytes"),
        ("keys: [{name: a, secret: '!!!!'}]", "keys.0.secret"),
        ("keys: [{name: 2026-11-01, secret: SECRET}]", "keys.0.name: the name is not text: put it in quotes"),
        ("keys: [{name: a, secret: 12345}]", "keys.0.secret: the secret is not base64 of 16, 24 or 32 bytes"),
        ("keys: [{name: a, secret: SECRET}, {name: a, secret: SECRET}]", "two keys have the same name"),
        ("keys: [{name: a, secret: SECRET, more: SECRET}]", "keys.0.more"),
        ("SECRET", "valid dictionary"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence_without_any_secret(file: Path, text: str, why: str) -> None:
    secret = SECRETS["old"]
    file.write_text(text.replace("SECRET", secret))
    with pytest.raises(PayloadCodecError, match=f"^The encryption keys in {file} cannot be used \\(.*{why}") as refused:
        EncryptionCodec(file)
    assert secret not in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_keys_that_become_unusable_leave_the_old_ones_in_use_and_are_logged_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    codec = EncryptionCodec(write(file, "old"))
    (before,) = await codec.encode([PLAIN])
    await asyncio.to_thread(file.unlink)
    for _ in range(2):
        assert await codec.decode([before]) == [PLAIN]
    records = [record for record in caplog.records if "the worker keeps the old ones" in record.getMessage()]
    assert len(records) == 1
    write(file, "new", "old")
    (after,) = await codec.encode([PLAIN])
    assert after.metadata["encryption-key-id"] == b"new"


async def test_errors_are_encrypted_too(file: Path) -> None:
    """Their messages name nodes and pods."""
    with_codec = converter(EncryptionCodec(write(file, "old")))
    failure = Failure()
    await with_codec.encode_failure(ApplicationError("node ip-10-0-0-1 is gone", "i-0123456789abcdef0"), failure)
    assert b"ip-10-0" not in failure.SerializeToString()
    assert b"i-0123" not in failure.SerializeToString()
    error = await with_codec.decode_failure(failure)
    assert "node ip-10-0-0-1 is gone" in str(error)


async def test_a_worker_without_its_keys_does_not_start(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENCRYPTION_CONFIG, str(file))
    with pytest.raises(TemporalError, match=f"^The encryption keys in {file} cannot be used \\(No such file"):
        await connect()
