"""The engine, which decides what to buy for a batch of pods and where each pod runs: begin with `engine` and `model`.

Each package knows only those below it: `bound` and `limited`, `domains`, `column_generation` and `existing`, `packing`,
`offerings`, `pods`. docs/design.md says how a plan is made, step by step, and in which module each step is.
"""
