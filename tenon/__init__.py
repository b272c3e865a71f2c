"""DECIDE: everything Tenon knows and chooses, as pure functions over plain data.

Nothing below this package reads a clock, a socket, a file of the user's or a random number.
"""
