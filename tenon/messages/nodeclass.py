"""The messages of the workflow of an EC2NodeClass."""

from tenon.messages.base import Message, WorkflowInput


class NodeClassInput(WorkflowInput):
    """Resolves subnets, security groups, images and instance profile of a node class, and writes its status."""

    cluster: str
    name: str


class NodeClassResult(Message):
    """``exists`` is false once the class is gone; ``deleting`` is true while claims still hold it."""

    exists: bool = True
    deleting: bool = False
    ready: bool = False
    generation: int = 0
    message: str = ""
