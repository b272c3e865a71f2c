"""Messages between workflows, activities and operators, one model each.

Only add optional fields: histories recorded by older versions must always decode. Never put a secret in a message; user
data stays in the launch template, which messages refer to by name.
"""
