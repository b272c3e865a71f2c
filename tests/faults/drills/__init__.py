"""Drills: what makes the whole machine fail, at each moment of a node's life. `make drills` runs them.

A drill kills processes, cuts connections or fills the cluster at one moment after the other, so it takes minutes, and
asks more of a machine than the other tests. They are run before a release, and after a change of workflows, of launches
or of the leader's election.
"""
