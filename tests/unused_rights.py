"""The actions that deploy/iam/controller-policy.json grants and no test uses, each with the reason."""

UNUSED = {
    "ec2:DescribeCapacityReservations": "capacity reservations are not supported yet (EC-04)",
    "ec2:DescribePlacementGroups": "placement groups are not supported yet (EC-S6)",
    "arc-zonal-shift:GetManagedResource": "zonal shift is not supported yet, and the sandbox has no such service",
    "iam:ListInstanceProfiles": "profiles of earlier roles are not collected yet (EC-S11)",
}
