"""Correct implementations of the EC2 actions that the mock gets wrong. The mock handles all others."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError, FilterNotImplementedError, InvalidInstanceTypeError
from moto.ec2.responses import EC2Response

from sandbox.ec2 import catalogue, describe, instance_status, spot_history, spot_scores, tokens
from sandbox.ec2.authorization.identities import Caller, access_key
from sandbox.ec2.describe import pattern
from sandbox.ec2.instances import CODES, Machine
from sandbox.ec2.launch import knows_profile, unknown_profile
from sandbox.ec2.world import World
from sandbox.ec2.xml import document, render

INSTANCE_ID = re.compile(r"i-(?:[0-9a-f]{8}|[0-9a-f]{17})")
CONSOLE_BYTES = 64 * 1024
"""How much of the output of a console EC2 keeps."""
NO_LATEST = (
    "This instance type does not support retrieving the latest console logs. "
    "To see if a later console log is available, call this API again without the latest parameter."
)


class SandboxEC2(EC2Response):  # type: ignore[misc]
    """EC2 with a market, idempotency, instance life cycles, and real paging."""

    world: World

    def call_action(self) -> Any:
        """Handle the action. A filter that the mock does not know becomes an error of the caller instead of
        the server.
        """
        self.world.book.advance()
        try:
            return super().call_action()
        except FilterNotImplementedError as error:
            name = str(error).split("'")[1]
            problem = EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
            return self.serialized(ActionResult(problem))

    @staticmethod
    def _enrich_response(headers: dict[str, str], body: Any) -> tuple[dict[str, str], Any]:
        """Leave the body as it is. The mock searches all of it for a request ID that EC2 spells differently."""
        return {**headers, "status": str(headers.get("status", 200))}, body

    # --- launching ---

    def create_fleet(self) -> Any:
        if self._get_param("Type", "maintain") != "instant":
            return super().create_fleet()
        self.error_on_dryrun()
        caller = Caller.of(access_key(str(self.headers.get("Authorization") or "")))
        judge = None if caller is None else partial(self.world.judge.refuse, caller)
        answer = self.world.fleets.create(self.ec2_backend, _plain(self.params), judge)
        return render("CreateFleet", answer)

    def describe_fleets(self) -> Any:
        parameter = self._get_param("FleetIds", [])
        records = self.world.fleets.records
        missing = [fleet_id for fleet_id in parameter if fleet_id not in records]
        if missing:
            raise EC2ClientError("InvalidFleetId.NotFound", f"The fleet ID '{missing[0]}' does not exist")
        fleets = [
            {
                "FleetId": record.fleet_id,
                "FleetState": "active",
                "Type": "instant",
                "ClientToken": record.request.get("ClientToken", ""),
                "TargetCapacitySpecification": record.request.get("TargetCapacitySpecification"),
                "Instances": record.answer["Instances"],
                "Errors": record.answer["Errors"],
                "Tags": [{"Key": key, "Value": value} for key, value in record.tags.items()],
            }
            for record in (list(records.values()) if not parameter else [records[fleet_id] for fleet_id in parameter])
        ]
        return render("DescribeFleets", {"Fleets": fleets})

    def run_instances(self) -> Any:
        # The mock judges the profile only in a real launch, and knows a new one at once.
        if parameter := self._get_param("IamInstanceProfile"):
            name = parameter.get("Name") or parameter.get("Arn", "").rpartition("/")[2]
            if not (knows_profile(self.ec2_backend, parameter) and self.world.consistency.knows_profile(name)):
                refusal = unknown_profile(name)
                raise EC2ClientError(refusal.code, refusal.message)
        result = super().run_instances()
        reservation = result.result
        for instance in reservation.instances:
            capacity_type = "spot" if instance.lifecycle == "spot" else "on-demand"
            pool = (instance.instance_type, str(instance.availability_zone), capacity_type)
            self.world.book.add(instance, pool, reservation.id, delays=self.world.consistency.delays)
        return result

    # --- instances ---

    def describe_instances(self) -> Any:
        self.error_on_dryrun()
        ids = self._get_param("InstanceIds", [])
        size = self._get_int_param("MaxResults")
        if ids and size:
            raise EC2ClientError(
                "InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults"
            )
        result = describe.describe(self.world.book, ids, self._filters_from_querystring())
        start = tokens.decode(self._get_param("NextToken"))
        selection, rest = describe.page(result, start, tokens.page_size(size, 5, 1000))
        answer: dict[str, Any] = {"Reservations": describe.reservations(selection)}
        if rest is not None:
            answer["NextToken"] = tokens.encode(rest)
        return render("DescribeInstances", answer)

    def get_console_output(self) -> Any:
        """The last 64 KiB. ``Latest`` does not work on Xen, and a console without text has no output at all."""
        instance_id = self._get_param("InstanceId", "")
        if not instance_id:
            raise EC2ClientError("MissingParameter", "The request must contain the parameter InstanceId")
        if not INSTANCE_ID.fullmatch(instance_id):
            raise EC2ClientError("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id}"')
        self.error_on_dryrun()
        (machine,) = self.world.book.find([instance_id])
        kind = catalogue.describe_type(machine.pool[0])
        if self._get_bool_param("Latest", False) and (kind or {}).get("Hypervisor") == "xen":
            raise EC2ClientError("UnsupportedOperation", NO_LATEST)
        text = "".join(f"{line}\r\n" for line in machine.console).encode()[-CONSOLE_BYTES:]
        answer: dict[str, Any] = {"InstanceId": machine.id, "Timestamp": datetime.now(UTC)}
        if text:
            answer["Output"] = base64.b64encode(text).decode()
        return render("GetConsoleOutput", answer)

    def describe_instance_status(self) -> Any:
        self.error_on_dryrun()
        filters = self._filters_from_querystring()
        try:
            statuses = instance_status.statuses(self.world.book, self._get_param("InstanceIds", []), filters)
        except KeyError as error:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{error.args[0]}' is invalid") from error
        page, token = self._page(statuses, 1000)
        return render("DescribeInstanceStatus", {"InstanceStatuses": page, "NextToken": token})

    def terminate_instances(self) -> Any:
        ids = self._get_param("InstanceIds", [])
        if not ids:
            raise EC2ClientError("MissingParameter", "The request must contain the parameter InstanceId")
        self.error_on_dryrun()
        return render("TerminateInstances", {"TerminatingInstances": _changes(self.world.book.terminate(ids))})

    def stop_instances(self) -> Any:
        if self._get_bool_param("Hibernate", False):
            raise EC2ClientError("UnsupportedHibernationConfiguration", "The instances are not set up to hibernate")
        return render("StopInstances", {"StoppingInstances": _changes(self.world.book.stop_own(self._instance_ids()))})

    def start_instances(self) -> Any:
        return render("StartInstances", {"StartingInstances": _changes(self.world.book.start(self._instance_ids()))})

    def reboot_instances(self) -> Any:
        self.world.book.reboot(self._instance_ids())
        return document("RebootInstances", "<return>true</return>")

    def _instance_ids(self) -> list[str]:
        """The well-formed IDs of a call that is not a dry run."""
        ids: list[str] = self._get_param("InstanceIds", [])
        if not ids:
            raise EC2ClientError("MissingParameter", "The request must contain the parameter InstanceId")
        if malformed := [name for name in ids if not INSTANCE_ID.fullmatch(name)]:
            raise EC2ClientError("InvalidInstanceID.Malformed", f'Invalid id: "{malformed[0]}"')
        self.error_on_dryrun()
        return ids

    def create_tags(self) -> Any:
        self._known_resources()
        reserved = [tag["Key"] for tag in self._get_param("Tags", []) if tag["Key"].startswith("aws:")]
        if reserved:
            raise EC2ClientError(
                "InvalidParameterValue",
                f"Value ( {reserved[0]} ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved "
                "for internal use",
            )
        return super().create_tags()

    def delete_tags(self) -> Any:
        self._known_resources()
        return super().delete_tags()

    def _known_resources(self) -> None:
        resources = self._get_param("Resources", [])
        self.world.book.find(name for name in resources if name.startswith("i-"))

    def describe_security_groups(self) -> Any:
        try:
            return super().describe_security_groups()
        except KeyError as error:
            name = error.args[0]
            if name in self._filters_from_querystring():
                raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid") from error
            raise

    # --- launch templates ---

    def describe_launch_templates(self) -> Any:
        self.error_on_dryrun()
        ids, names = self._get_param("LaunchTemplateIds", []), self._get_param("LaunchTemplateNames", [])
        for missing in (item for item in ids if item not in self.ec2_backend.launch_templates):
            raise EC2ClientError(
                "InvalidLaunchTemplateId.NotFound", f"The launch template ID '{missing}' does not exist"
            )
        describe_launch_templates = self.ec2_backend.describe_launch_templates(
            template_ids=ids, template_names=names, filters=self._filters_from_querystring()
        )
        page, token = self._page(describe_launch_templates, 200)
        rows = [
            {
                "CreateTime": template.create_time,
                "CreatedBy": f"arn:{self.partition}:iam::{self.current_account}:root",
                "DefaultVersionNumber": template.default_version_number,
                "LatestVersionNumber": template.latest_version_number,
                "LaunchTemplateId": template.id,
                "LaunchTemplateName": template.name,
                "Tags": [{"Key": tag["key"], "Value": tag["value"]} for tag in template.get_tags()],
            }
            for template in page
        ]
        return render("DescribeLaunchTemplates", {"LaunchTemplates": rows, "NextToken": token})

    def delete_launch_template(self) -> Any:
        name = self._get_param("LaunchTemplateName")
        if name and name not in self.ec2_backend.launch_template_name_to_ids:
            raise EC2ClientError(
                "InvalidLaunchTemplateName.NotFoundException",
                f"The specified launch template, with template name {name}, does not exist",
            )
        return super().delete_launch_template()

    # --- offerings ---

    def describe_instance_types(self) -> Any:
        regional_types = catalogue.regional_types(self.region)
        parameter = self._get_param("InstanceTypes", [])
        unknown = sorted(set(parameter) - set(regional_types))
        if unknown:
            raise InvalidInstanceTypeError(unknown, error_type="InvalidInstanceType")
        kinds = [kind for name, kind in regional_types.items() if not parameter or name in parameter]
        for name, values in self._filters_from_querystring().items():
            patterns = [pattern(str(value)) for value in values]
            kinds = [kind for kind in kinds if _has(kind.get_filter_value(name), patterns)]
        page, token = self._page(kinds, 100)
        inner = "".join(catalogue.type_xml(kind["InstanceType"]) for kind in page)
        more = f"<nextToken>{token}</nextToken>" if token else ""
        return document("DescribeInstanceTypes", f"<instanceTypeSet>{inner}</instanceTypeSet>{more}")

    def describe_instance_type_offerings(self) -> Any:
        filters = {name: [pattern(str(v)) for v in values] for name, values in self._filters_from_querystring().items()}
        unknown = set(filters) - {"location", "instance-type"}
        if unknown:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{min(unknown)}' is invalid")
        rows = self.ec2_backend.describe_instance_type_offerings(self._get_param("LocationType"), {})
        keys = {"location": "Location", "instance-type": "InstanceType"}
        result = [
            row
            for row in rows
            if all(any(p.fullmatch(row[keys[name]]) for p in patterns) for name, patterns in filters.items())
        ]
        page, token = self._page(result, 1000)
        answer = {"InstanceTypeOfferings": page, "NextToken": token}
        return render("DescribeInstanceTypeOfferings", answer)

    def describe_spot_price_history(self) -> Any:
        filters = {name: list(values) for name, values in self._filters_from_querystring().items()}
        unknown = set(filters) - set(spot_history.READERS)
        if unknown:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{min(unknown)}' is invalid")
        rows = spot_history.history(
            self.world.prices,
            self.region,
            now=datetime.now(UTC),
            start=_moment(self._get_param("StartTime")),
            end=_moment(self._get_param("EndTime")),
            types=self._get_param("InstanceTypes", []),
            products=self._get_param("ProductDescriptions", []),
            zone=self._get_param("AvailabilityZone", ""),
        )
        page, token = self._page([row for row in rows if spot_history.matches(row, filters)], 1000)
        return render("DescribeSpotPriceHistory", {"SpotPriceHistory": page, "NextToken": token or ""})

    def get_spot_placement_scores(self) -> Any:
        self.error_on_dryrun()
        request = spot_scores.Request(
            self._get_int_param("TargetCapacity"),
            tuple(sorted(set(self._get_param("InstanceTypes", [])))),
            bool(self._get_param("InstanceRequirementsWithMetadata")),
            self._get_param("TargetCapacityUnitType", "units"),
            self._get_bool_param("SingleAvailabilityZone", False),
            tuple(sorted(self._get_param("RegionNames", []))),
        )
        zones = {
            zone.name: zone.zone_id
            for zone in self.ec2_backend.describe_availability_zones()
            if zone.zone_type == "availability-zone"
        }
        unknown = sorted(set(request.types) - catalogue.regional_types(self.region).keys())
        if unknown:
            raise InvalidInstanceTypeError(unknown, error_type="InvalidInstanceType")
        rows = self.world.spot_scores.answer(request, self.region, zones, catalogue.zonal_offerings(self.region))
        page, token = self._page(rows, 1000, 10)
        return render("GetSpotPlacementScores", {"SpotPlacementScores": page, "NextToken": token or ""})

    def describe_capacity_reservations(self) -> Any:
        self.error_on_dryrun()
        description = self.world.reservations.describe(
            self._get_param("CapacityReservationIds", []), self._filters_from_querystring()
        )
        page, token = self._page(description, 1000)
        return render("DescribeCapacityReservations", {"CapacityReservations": page, "NextToken": token or ""})

    def describe_reserved_instances(self) -> Any:
        self.error_on_dryrun()
        rows = self.world.commitments.reserved_instances(
            self._get_param("ReservedInstancesIds", []), self._filters_from_querystring()
        )
        return render("DescribeReservedInstances", {"ReservedInstances": rows})

    def describe_placement_groups(self) -> Any:
        self.error_on_dryrun()
        description = self.world.groups.describe(self._get_param("GroupIds", []), self._filters_from_querystring())
        return render("DescribePlacementGroups", {"PlacementGroups": description})

    def _page(self, rows: list[Any], limit: int, least: int = 1) -> tuple[list[Any], str | None]:
        """A page of a listing, and the token of the next page. ``least``: the smallest page that may be asked for."""
        start = tokens.decode(self._get_param("NextToken"))
        end = start + tokens.page_size(self._get_int_param("MaxResults"), least, limit)
        return rows[start:end], tokens.encode(end) if end < len(rows) else None


def _changes(machines: Iterable[tuple[Machine, str]]) -> list[dict[str, Any]]:
    """The states of instances before and after a call."""
    return [
        {
            "InstanceId": machine.id,
            "PreviousState": {"Name": before, "Code": CODES[before]},
            "CurrentState": {"Name": machine.state, "Code": CODES[machine.state]},
        }
        for machine, before in machines
    ]


def _plain(value: Any) -> Any:
    """Parsed parameters as plain dicts and lists."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _has(value: Any, patterns: list[Any]) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(p.fullmatch(str(value)) for p in patterns for value in values)


def _moment(value: Any) -> datetime | None:
    """A time parameter, either parsed by the mock or as text."""
    if value is None or value == "":
        return None
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
