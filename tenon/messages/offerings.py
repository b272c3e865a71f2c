"""An offering as a part of messages. It has a module of its own, so that plans load no message about launches."""

from tenon.kube.offerings import OfferingKey, Scope
from tenon.messages.base import Message


class OfferingRef(Message):
    """One way to buy an instance type, or all that EC2 refuses at once: the fields of an `OfferingKey`."""

    capacity_type: str
    instance_type: str
    zone: str
    scope: Scope = ""
    scope_name: str = ""

    @classmethod
    def of(cls, key: OfferingKey) -> "OfferingRef":
        """Return the key as a part of a message."""
        return cls(**key._asdict())

    @property
    def key(self) -> OfferingKey:
        """The offering as a value that can be compared and sorted."""
        return OfferingKey(self.capacity_type, self.instance_type, self.zone, self.scope, self.scope_name)
