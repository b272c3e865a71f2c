"""Controllers of disruption: conditions of NodeClaims, repair, commands."""
