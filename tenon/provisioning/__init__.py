"""From NodePools to the scheduling engine, and from its plan to NodeClaims."""
