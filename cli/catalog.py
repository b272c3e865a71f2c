"""``tenon catalog``: prints the instance types of a region, for the plans of commands on a machine without AWS.

The built-in types of `tenon simulate` and of the other commands that plan are those of us-west-2. This command runs
where EC2 can be reached, and the option --catalog gives its file to these commands.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.pricing import Pricing
from activities.ec2.regional_catalogue import regional_types
from cli.application import create_app, examples
from cli.context import worker_of_sandbox
from cli.simulating.progress import show_progress
from tenon.scheduling.catalog import catalog_entry
from tenon.sentences import counted

app = create_app()


@app.command(
    epilog=examples(
        "tenon catalog eu-central-1 > catalog.json",
        "tenon pods --catalog catalog.json",
    )
)
def catalog(region: Annotated[str | None, typer.Argument(help="The region. Default: $AWS_REGION.")] = None) -> None:
    """Print the instance types and prices of a region, for the option --catalog of commands that plan.

    The built-in types are those of us-west-2. This reads EC2 and AWS's price list, which needs credentials with the
    rights ec2:DescribeInstanceTypes, ec2:DescribeInstanceTypeOfferings, ec2:DescribeSpotPriceHistory,
    ec2:DescribeSubnets and pricing:GetProducts.
    """
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise typer.BadParameter("name the region, such as eu-central-1, or set AWS_REGION")
    sandbox = worker_of_sandbox()
    if sandbox is not None and sandbox.environment.get("AWS_REGION") == region:
        sandbox.apply_aws()
    try:
        with show_progress(f"Reading the instance types of {region} ..."):
            clients = Ec2(region)
            pricing = Pricing(clients)
            types = regional_types(clients, pricing)
    except EC2Error as error:
        print(f"The instance types of {region} cannot be read: {error.explained.rstrip('.')}.", file=sys.stderr)
        raise typer.Exit(2) from None
    entries = ",\n".join(json.dumps(catalog_entry(instance_type)) for instance_type in types)
    print(f'{{"instanceTypes": [\n{entries}\n]}}')
    for warning in pricing.warnings():
        print(f"note: {warning}", file=sys.stderr)
    print(counted(len(types), "instance type"), file=sys.stderr)
