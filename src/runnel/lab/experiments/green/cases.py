"""The runs of the experiment `green`: each has a workload, profiles of its past, a plan, and a run of the plan.

Printed (green §VI): 80 brokers, 40 publishers at 70 msg/min, 50 to 200 subscriptions each, homogeneous; the same with
15, 25 and 40 brokers at 100, 50 and 25% of the capacity and a linear series of subscriptions, heterogeneous; 400 and
1,000 brokers with 72 and 100 publishers × 225. Bit vectors of 128 to 1,024 bits, 1,280 by default.

Chosen, since it is not printed:

- The capacity: 252 messages per second, as lab/inventory.py infers it from "saturated"; a figure shows it swept.
- Profiles are filled from the past: the publications before time zero, as many as a vector has bits. Publishers
  repeat the quotes of 250 days, so 1,280 bits have seen every quote, and 128 about half; a figure shows more days.
- The paper's allowance for short vectors goes by their length (`scaling_for`): 1,280 bits get none.
- Head-room of 2%: the paper asks for no more than some output left over. Without any, brokers that are packed to the
  last byte exceed it by up to 0.7%, as publications differ from minute to minute and links send acknowledgements too.
  It was chosen by this; a figure shows it swept.
- Subscriptions come in the order of their brokers, as brokers report them. All publications are reckoned with as
  `MESSAGE_BYTES`, as the capacity is. They differ by 0.1% between publishers; a planner that knew it would sort
  subscriptions by publisher without meaning to, and BIN PACKING would be a clustering algorithm.
- Matching takes as long as in placement on the cluster (5.4 µs for each subscription and 54 µs besides); 1 ms between
  brokers, 0.1 ms to clients; covering is on.

CRAM as built here returns the scheme with the fewest brokers; the paper's returns the one with which clustering ends:
`CRAM-LAST` is that one with IOU, `CRAM-LAST-XOR` with XOR, under which its rate need not be the lowest. `CRAM-SPLIT` is
our own and splits clusters (planning/algorithms/cram/splitting.py).

A broker is overloaded if over the whole window it was to send more than it can, or to match more. The message rate of
a broker is that of publications that come in. A delay ends when the publication has left the last broker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from runnel.lab.inventory import GreenInventoryParameters
from runnel.lab.scenario import Scenario, make_scenario
from runnel.planning.load import Delay
from runnel.planning.profiles import BITS

MANUAL, AUTOMATIC, PAIRWISE_K, PAIRWISE_N = "MANUAL", "AUTOMATIC", "PAIRWISE-K", "PAIRWISE-N"
FBF, PACKING = "FBF", "BIN PACKING"
IOU, XOR, SPLIT = "CRAM-IOU", "CRAM-XOR", "CRAM-SPLIT"
LAST, LAST_XOR = "CRAM-LAST", "CRAM-LAST-XOR"
METRICS = ("CRAM-INTERSECT", XOR, "CRAM-IOS", IOU)
UNAWARE = (MANUAL, AUTOMATIC, PAIRWISE_K, PAIRWISE_N)
AWARE = (FBF, PACKING, *METRICS, SPLIT, LAST, LAST_XOR)
PRINTED = (FBF, PACKING, *METRICS)
"""Those of them whose name the paper prints; the others return another scheme, or split clusters, which is ours."""
ALGORITHMS = (*UNAWARE, *AWARE)
MOST = (MANUAL, PAIRWISE_N, FBF, PACKING, IOU, SPLIT, LAST)
"""The algorithms that are also run on the large networks."""

MESSAGE_BYTES = GreenInventoryParameters().message_bytes
DELAY = Delay(base_ns=53_763, each_ns=5_376)
RATE_PER_MIN = 70.0
DAYS = 250
HEADROOM = 2.0
CLIENT_MS = 0.1
WARM_UP_S = 10.0
INTERVAL_S = 10.0
Kind = Literal["homogeneous", "heterogeneous"]
Grape = Literal["", "with GRAPE", "without GRAPE"]


class Net(NamedTuple):
    """A network and its workload. `capacity` is a multiple of what was inferred."""

    brokers: int
    publishers: int
    per_publisher: int
    kind: Kind = "homogeneous"
    days: int = DAYS
    capacity: float = 1.0

    @property
    def subscriptions(self) -> int:
        """How many there are in all; heterogeneous: the linear series.

        >>> Net(80, 40, 200).subscriptions, Net(80, 40, 200, "heterogeneous").subscriptions
        (8000, 4100)
        """
        if self.kind == "homogeneous":
            return self.publishers * self.per_publisher
        return self.per_publisher * (self.publishers + 1) // 2

    @property
    def name(self) -> str:
        """The name in tables.

        >>> Net(80, 40, 50, "heterogeneous").name
        '80 brokers, heterogeneous, 1025 subscriptions'
        """
        more = [f"{self.days} days"] if self.days != DAYS else []
        more += [f"capacity {self.capacity:g}"] if self.capacity != 1 else []
        return ", ".join(
            [f"{self.brokers} brokers", self.kind, f"{self.subscriptions} subscriptions", *more]
        )

    def workload(self) -> dict[str, Any]:
        """The parameters of its workload."""
        return {
            **{"templates": "green", "publishers": self.publishers, "brokers": self.brokers},
            **{"per_publisher": self.per_publisher, "scenario": self.kind},
            **{"rate_per_min": RATE_PER_MIN, "days": self.days},
        }


@dataclass(frozen=True, slots=True)
class GreenCase:
    """One run of so many simulated minutes.

    `grape`: MANUAL with publishers placed by GRAPE, or an algorithm of ours without it (they stay at the root).
    `live`: if not 0, the plan is made of brokers' answers, and GRAPE runs in brokers with so many samples (live.py).
    """

    net: Net
    algorithm: str
    minutes: float
    grape: Grape = ""
    bits: int = BITS
    headroom: float = HEADROOM
    live: int = 0
    is_scaled: bool = True  # with the paper's allowance for short vectors

    @property
    def name(self) -> str:
        """The name of the run.

        >>> GreenCase(Net(80, 40, 200), "CRAM-IOU", 7, "without GRAPE").name
        '80 brokers, homogeneous, 8000 subscriptions, CRAM-IOU, without GRAPE, 7 min'
        """
        parts = [self.net.name, self.algorithm, self.grape]
        parts += [f"{self.bits} bits"] if self.bits != BITS else []
        parts += [f"head-room {self.headroom:g}"] if self.headroom != HEADROOM else []
        parts += [f"live with {self.live:,} samples"] if self.live else []
        parts += [] if self.is_scaled else ["without allowance"]
        parts.append(f"{self.minutes:g} min")
        return ", ".join(part for part in parts if part)

    def vary(self, **changes: Any) -> GreenCase:
        """The same case with other values."""
        return replace(self, **changes)

    def scenario(self) -> Scenario:
        """The scenario of the run; the plan is added later."""
        net = self.net
        tables: dict[str, Any] = {
            "topology": {"shape": "green", "brokers": net.brokers},
            "workload": {"name": "stocks", **net.workload()},
            "network": {"latency_ms": 1.0, "client_latency_ms": CLIENT_MS},
            # Loads are counted in whole intervals: with one more, these are as long as the minutes.
            "time": {
                "warm_up_s": WARM_UP_S,
                "measure_s": 60 * self.minutes + INTERVAL_S,
                "drain_s_max": 3_600,
            },
            "trace": {"interval_s": INTERVAL_S},
        }
        return make_scenario(tables, "green")
