"""The engine, which decides what to buy for a batch of pods and where each pod runs: begin with `engine` and `model`.

docs/design.md says how a plan is made, step by step, and in which module each step is.
"""
