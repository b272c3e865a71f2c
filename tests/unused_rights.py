"""The actions that deploy/iam/controller-policy.json grants and no test uses, each with the reason."""

UNUSED: dict[str, str] = {}
