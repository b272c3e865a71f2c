"""The least that any plan can cost, which says how good a plan is."""
