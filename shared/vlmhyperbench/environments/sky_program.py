"""Rent and return machines with SkyPilot: a program that its own interpreter runs by path, never imported here.

Its one argument is a JSON object, its last line on stdout another: an answer, or `error` with `code` and `cure`. The
other lines are SkyPilot's log. Nothing of the platform is installed beside it.

    {"do": "rent", "name": NAME, "resources": {…}, "cloud": CLOUD, "region": REGION, "accelerators": "L4:1"}
    {"do": "return", "name": NAME}
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any


class Failed(Exception):
    """What goes wrong for a reason that a user can change."""

    def __init__(self, code: str, message: str, cure: str) -> None:
        super().__init__(message)
        self.answer = {"code": code, "error": message, "cure": cure}


def rent(order: dict[str, Any]) -> dict[str, Any]:
    """Rent a machine, or find the one of this name, and return how it is reached and what it is.

    Raises:
        Failed: there are no credentials, or no such machine.
    """
    import sky
    from sky import exceptions, execution
    from sky.backends import backend_utils

    check_credentials(order["cloud"])
    try:
        task = sky.Task.from_yaml_config({"resources": order["resources"]})
        _, handle = execution.launch(task, cluster_name=order["name"])
    except exceptions.ResourcesUnavailableError as error:
        raise why_unavailable(order, str(error)) from error
    except ValueError as error:
        message = f"{order['cloud']} takes no such order: {' '.join(str(error).split())}"
        raise Failed("no_machine", message, "Correct the entry.") from error
    credentials = backend_utils.ssh_credential_from_yaml(handle.cluster_yaml, ssh_user=handle.ssh_user)
    resources = handle.launched_resources
    return {
        "host": handle.external_ips()[0],
        "port": handle.external_ssh_ports()[0],
        "user": credentials["ssh_user"],
        "key": credentials["ssh_private_key"],
        "proxy": credentials.get("ssh_proxy_command"),
        "region": resources.region,
        "instance_type": resources.instance_type,
        "hourly_cost_usd": round(resources.get_cost(3600), 4),
    }


def check_credentials(cloud: str) -> None:
    """Check that a machine of a provider can be rented.

    Raises:
        Failed: the credentials are missing or refused.
    """
    from sky.clouds import CloudCapability
    from sky.utils import registry

    is_valid, reason = registry.CLOUD_REGISTRY.from_str(cloud).check_credentials(CloudCapability.COMPUTE)
    if not is_valid:
        lines = " ".join((reason if isinstance(reason, str) else json.dumps(reason)).split())
        cure = "Follow SkyPilot's page on the provider: https://docs.skypilot.co/en/latest/getting-started/installation.html"
        raise Failed("no_credentials", f"No machine can be rented from {cloud}: {lines}", cure)


def why_unavailable(order: dict[str, Any], reason: str) -> Failed:
    """Tell a machine that nobody offers from one that is too expensive, and from one that is not free now."""
    from sky import catalog

    name, _, count = order["accelerators"].partition(":")
    most, region = order["resources"]["max_hourly_cost"], order["region"]
    spot = order["resources"]["use_spot"]
    listed = catalog.list_accelerators(
        name_filter=f"^{name}$", region_filter=region, clouds=order["cloud"], case_sensitive=False, all_regions=True
    )
    offers = [offer for offers in listed.values() for offer in offers if offer.accelerator_count == float(count)]
    prices = [price for offer in offers if (price := offer.spot_price if spot else offer.price) == price]  # no NaN
    place, machine = order["cloud"] + (f" in {region}" if region else ""), f"machine with {name}:{count}"
    if not prices:
        others = ", ".join(offered(order["cloud"])[:40])
        cure = f"Choose one of {others}." if others else "Choose another provider."
        return Failed("no_machine", f"{place} offers no {machine}.", cure)
    if min(prices) > most:
        message = f"The cheapest {machine} of {place} costs {min(prices):g} USD an hour, more than {most:g}."
        return Failed("too_expensive", message, "Raise max_hourly_cost_usd, or choose other accelerators.")
    message = f"{place} has no {machine} free now: {' '.join(reason.split())[-1000:]}"
    return Failed("no_capacity", message, "Try again later, or leave region out.")


def offered(cloud: str) -> list[str]:
    """Return `NAME:NUMBER` of all accelerators of a provider."""
    from sky import catalog

    listed = catalog.list_accelerators(gpus_only=True, clouds=cloud)
    return sorted({f"{name}:{offer.accelerator_count:g}" for name, offers in listed.items() for offer in offers})


def give_back(order: dict[str, Any]) -> dict[str, Any]:
    """Return a machine; one that is already gone is no error."""
    from sky import core, exceptions

    with suppress(exceptions.ClusterDoesNotExist, ValueError):
        core.down(order["name"])
    return {}


def main() -> None:
    """Do what the argument says."""
    order = json.loads(sys.argv[1])
    try:
        answer = {"rent": rent, "return": give_back}[order["do"]](order)
    except Failed as failed:
        answer = failed.answer
    print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
