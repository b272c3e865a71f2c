"""The only package that the wheel installs: the command ``tenon``, and Tenon's own packages out of others' way.

An environment has one `cli` and one `worker`, so Tenon's must not be installed under these names. The wheel has them in
the folder ``packages`` here, which no other program has on its path. Only the command itself adds it.
"""
