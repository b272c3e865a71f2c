"""How an EC2NodeClass configures the instance: volumes, network interfaces, metadata service, connection tracking."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis.base import ApiModel, Rule

VolumeType = Literal["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"]
Switch = Literal["enabled", "disabled"]
_TO_59000 = "[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000"
_TO_64000 = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000"
SIZE_PATTERN = rf"^(({_TO_59000})Gi|({_TO_64000})G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$"
"""Allows up to 64 TB, the maximum size of a volume."""


class BlockDevice(ApiModel):
    """An EBS volume."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.snapshotID) || has(self.volumeSize)",
            "a volume needs snapshotID or volumeSize",
        ),
        Rule(
            "!has(self.volumeInitializationRate) || has(self.snapshotID)",
            "volumeInitializationRate needs snapshotID",
        ),
    )

    delete_on_termination: bool | None = None
    """Whether the volume is deleted with the instance."""
    encrypted: bool | None = None
    """Whether the volume is encrypted."""
    iops: Annotated[int, Field(ge=1)] | None = None
    """I/O operations a second."""
    kms_key_id: Annotated[str, Field(min_length=1)] | None = None
    """The key that encrypts the volume."""
    snapshot_id: Annotated[str, Field(min_length=1)] | None = None
    """The snapshot that the volume is made from."""
    throughput: Annotated[int, Field(ge=1)] | None = None
    """Throughput in MiB a second."""
    volume_initialization_rate: Annotated[int, Field(ge=100, le=300)] | None = None
    """How fast the snapshot is loaded, in MiB a second."""
    volume_size: Annotated[str, Field(pattern=SIZE_PATTERN)] | None = None
    """The size of the volume, such as 20Gi."""
    volume_type: VolumeType | None = None
    """The kind of volume."""


class BlockDeviceMapping(ApiModel):
    """A volume and the device it appears as."""

    device_name: Annotated[str, Field(min_length=1)] | None = None
    """The device, such as /dev/xvda."""
    ebs: BlockDevice | None = None
    """The volume."""
    root_volume: bool = False
    """Whether pods' ephemeral storage is on this volume."""


class NetworkInterface(ApiModel):
    """A network interface of the instance."""

    network_card_index: Annotated[int, Field(ge=0)]
    """The network card."""
    device_index: Annotated[int, Field(ge=0)]
    """The place on the card."""
    interface_type: Literal["interface", "efa-only"]
    """Whether the interface carries IP traffic or only EFA."""


class MetadataOptions(ApiModel):
    """The instance metadata service."""

    http_endpoint: Switch = "enabled"
    """Whether the service answers."""
    http_protocol_ipv6: Switch = "disabled"
    """Whether the service answers on IPv6."""
    http_put_response_hop_limit: Annotated[int, Field(ge=1, le=64)] = 1
    """How many network hops an answer may take; 1 keeps it from pods that have their own network."""
    http_tokens: Literal["required", "optional"] = "required"
    """Whether a session token is needed (IMDSv2)."""


class ConnectionTracking(ApiModel):
    """How long idle connections are tracked, in seconds; narrows the choice to Nitro instances."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
            "connectionTracking needs at least one timeout",
        ),
    )

    tcp_established_timeout: Annotated[int, Field(ge=60, le=432000)] | None = None
    """For TCP connections."""
    udp_stream_timeout: Annotated[int, Field(ge=60, le=180)] | None = None
    """For UDP flows with several exchanges."""
    udp_timeout: Annotated[int, Field(ge=30, le=60)] | None = None
    """For UDP flows with one exchange."""


class CPUOptions(ApiModel):
    """Options of the processor."""

    nested_virtualization: Switch | None = None
    """Whether the instance may run virtual machines."""


class EnclaveOptions(ApiModel):
    """Nitro enclaves."""

    enabled: bool
    """Whether the instance may run Nitro enclaves."""
