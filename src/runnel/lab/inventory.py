"""The resources of brokers (matching, bandwidth, memory) by name: the inventories of the papers.

    balance-local     Table IV, simulation: CPU, memory and bandwidth of B0 to B4
    balance-global    Table VI, simulation: those of the eight edge brokers
    green             all brokers with the full network capacity; or 15 with all, 25 with half, 40 with a quarter of it

Printed: those figures, MHz, MB and Mbps. "Matching delays are simulated by a predefined linear function", which is
not printed, and green prints no capacity. So the rest is a parameter, chosen once, with the reason here:

- `match_us_each`, `match_us_base`: a CPU of 1,000 MHz takes 10 µs per subscription and 100 µs besides; others in
  proportion. With that B1 of balance-local (100 MHz) is overloaded four times over by 2,000 subscribers at 20 msg/s,
  and four edge brokers that share them by their CPUs have an input utilisation of about a quarter: room for more.
- The cluster-heads of balance-global are not in Table VI: they have what B0 has in Table IV.
- The full capacity: green's MANUAL is "saturated" at 1,000 brokers, where an interior broker sends two forwards of
  116.7 msg/s and 22.5 local subscriptions × 0.817, in all 252 messages per second; times `message_bytes`, the
  frame of a quote.

1 MB is 10⁶ bytes and 1 Mbps 125,000 bytes per second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from runnel.errors import InputError
from runnel.sim.resources import Resources
from runnel.workload.green import capacities
from runnel.workload.parameters import Count, Parameters, Rate, read_parameters


class Specification(NamedTuple):
    """One line of a table of balance."""

    cpu_mhz: int
    memory_mb: int
    bandwidth_mbps: float


TABLE_IV = {
    "B0": Specification(2_000, 32, 10),
    "B1": Specification(100, 16, 0.5),
    "B2": Specification(200, 16, 1),
    "B3": Specification(400, 32, 2),
    "B4": Specification(1_000, 32, 5),
}
TABLE_VI = {
    "B11": Specification(300, 128, 1),
    "B12": Specification(200, 128, 0.5),
    "B21": Specification(350, 64, 1),
    "B22": Specification(400, 64, 1.5),
    "B31": Specification(266, 64, 1),
    "B32": Specification(700, 64, 2),
    "B41": Specification(166, 64, 0.5),
    "B42": Specification(233, 128, 0.5),
}
HEADS = ("B10", "B20", "B30", "B40")
MESSAGES_PER_S = 252
"""What green's interior broker sends at 1,000 brokers when it is just full."""


class BalanceInventoryParameters(Parameters, frozen=True):
    """The linear function of matching, for a CPU of 1,000 MHz."""

    match_us_each: Rate = 10.0
    match_us_base: Rate = 100.0


class GreenInventoryParameters(Parameters, frozen=True):
    """`message_bytes`: what one of the `MESSAGES_PER_S` takes on the wire."""

    scenario: Literal["homogeneous", "heterogeneous"] = "homogeneous"
    message_bytes: Count = 244


def make_inventory(
    name: str, parameters: Mapping[str, Any], brokers: Sequence[str]
) -> dict[str, Resources]:
    """What each of these brokers has; an error names the key.

    >>> make_inventory("balance-local", {}, ["B0", "B1", "B2", "B3", "B4"])["B1"]
    Resources(match_ns_each=100000, match_ns_base=1000000, output_bytes_per_second=62500, memory_bytes=16000000)
    """
    kind = INVENTORIES.get(name)
    if kind is None:
        raise InputError(f"name: there is no {name!r}; there are {', '.join(INVENTORIES)}")
    parameters_kind, make = kind
    return make(read_parameters(parameters_kind, parameters), brokers)


def _from_table(
    table: Mapping[str, Specification],
    parameters: BalanceInventoryParameters,
    brokers: Sequence[str],
) -> dict[str, Resources]:
    unknown = [broker for broker in brokers if broker not in table]
    if unknown:
        raise InputError(
            f"name: the table has no broker {unknown[0]}, only {', '.join(table)}: "
            "take the shape of the same name"
        )
    return {broker: _resources(table[broker], parameters) for broker in brokers}


def _resources(has: Specification, parameters: BalanceInventoryParameters) -> Resources:
    # µs at 1,000 MHz → ns at so many MHz.
    scale = 1_000 * 1_000 / has.cpu_mhz
    return Resources(
        match_ns_each=round(parameters.match_us_each * scale),
        match_ns_base=round(parameters.match_us_base * scale),
        output_bytes_per_second=round(has.bandwidth_mbps * 125_000),
        memory_bytes=has.memory_mb * 1_000_000,
    )


def _balance_local(
    parameters: BalanceInventoryParameters, brokers: Sequence[str]
) -> dict[str, Resources]:
    return _from_table(TABLE_IV, parameters, brokers)


def _balance_global(
    parameters: BalanceInventoryParameters, brokers: Sequence[str]
) -> dict[str, Resources]:
    heads = dict.fromkeys(HEADS, TABLE_IV["B0"])
    return _from_table(heads | TABLE_VI, parameters, brokers)


def _green(parameters: GreenInventoryParameters, brokers: Sequence[str]) -> dict[str, Resources]:
    full = MESSAGES_PER_S * parameters.message_bytes
    shares = (
        capacities(len(brokers)) if parameters.scenario == "heterogeneous" else [1.0] * len(brokers)
    )
    return {
        broker: Resources(output_bytes_per_second=round(full * share))
        for broker, share in zip(brokers, shares, strict=True)
    }


INVENTORIES: Mapping[
    str, tuple[type[Parameters], Callable[[Any, Sequence[str]], dict[str, Resources]]]
] = {
    "balance-local": (BalanceInventoryParameters, _balance_local),
    "balance-global": (BalanceInventoryParameters, _balance_global),
    "green": (GreenInventoryParameters, _green),
}
"""The parameters of each inventory, and the function that makes it."""
