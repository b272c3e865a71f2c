"""The actions that deploy/iam/controller-policy.json grants and no test uses, each with the reason."""

UNUSED = {
    "iam:ListInstanceProfiles": "profiles of earlier roles are not collected yet (EC-S11)",
}
