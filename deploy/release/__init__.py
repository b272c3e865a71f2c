"""Makes the files of a release from the commit that is checked out: docs/releasing.md.

Two builds of a commit have the same bytes, so anyone can check that a release is what its commit says.
"""
