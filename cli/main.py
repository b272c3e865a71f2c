"""The ``tenon`` command: one sub-command a job."""

from __future__ import annotations

import typer

from cli import demo, generate, node, sandbox, worker

app = typer.Typer(
    name="tenon",
    help="Right-sized EC2 nodes for pods that fit nowhere; every node's life is a durable workflow.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(sandbox.app, name="sandbox", help="A real control plane on this machine, to try Tenon on.")
app.add_typer(node.app, name="node", help="Watch and steer nodes through their workflows.")
app.command(name="worker")(worker.worker)
app.command(name="demo")(demo.demo)
app.command(name="generate")(generate.generate)
