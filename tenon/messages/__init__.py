"""Messages between workflows, activities and operators, one model each.

From release 0.1.0 on, only add optional fields, because recorded histories must always decode. Never put a secret in a
message; user data stays in the launch template, which messages refer to by name.
"""
