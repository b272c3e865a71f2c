"""Page tokens and page sizes, shared by all listings."""

from __future__ import annotations

import base64
import binascii

from moto.ec2.exceptions import EC2ClientError


def encode(position: int) -> str:
    """An opaque token for the position where the next page starts."""
    return base64.urlsafe_b64encode(f"next:{position}".encode()).decode()


def decode(token: str | None) -> int:
    """The position in a token. 0 without a token.

    Raises:
        EC2ClientError: InvalidParameterValue if this server did not write the token.
    """
    if not token:
        return 0
    try:
        prefix, position = base64.urlsafe_b64decode(token.encode()).decode().split(":")
        if prefix == "next":
            return int(position)
    except (ValueError, binascii.Error):
        pass
    raise EC2ClientError("InvalidParameterValue", "Unable to parse pagination token")


def page_size(page: int | None, lowest: int, highest: int) -> int:
    """The number of entries in a page: ``highest`` unless the caller requested fewer.

    Raises:
        EC2ClientError: InvalidParameterValue if the request is out of bounds.
    """
    if page is None:
        return highest
    if not lowest <= int(page) <= highest:
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Value ( {page} ) for parameter maxResults is invalid. Expecting a value between {lowest} and {highest}.",
        )
    return int(page)
