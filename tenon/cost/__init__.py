"""What the cluster costs, and whose cost it is.

`money` divides amounts without losing any of them. `split` divides the price of a node. `bill` says what EC2 charges
for an instance, `sampling` makes the entries of the record that say who used it, and `attribution` brings both together
over a window. `rows` and `focus` are what a person and a FinOps tool read.
"""
