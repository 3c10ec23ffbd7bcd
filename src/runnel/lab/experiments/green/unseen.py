"""Plans judged on what comes after them: how many brokers are overloaded in windows that the plan has not seen.

    past │ window 3 │ window 4 │ …      for each window a plan of the past (as many publications as a vector has bits),
                                        and the load of every broker of this plan in the window itself

The quotes of green's workload, each published once and in the order of its days, are the stream; with a file of real
quotes (`quotes`) they drift as prices do. A clairvoyant plan is made of the window that it is judged by.

The load of a layout is worked out, not simulated: `predict_loads` is exact for the window whose profiles it is given,
within what `runnel reproduce green` measures (some tenths of a percent).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runnel.lab.experiments.green.cases import DELAY, MESSAGE_BYTES
from runnel.lab.inventory import make_inventory
from runnel.matching import make_engine
from runnel.planning.documents.constraints import Constraints, task_of
from runnel.planning.layout import Layout, overloaded_brokers, predict_loads
from runnel.planning.load import Capacity
from runnel.planning.network import Network
from runnel.planning.planner import PlanOptions, lay_out
from runnel.planning.profiles import BITS, Profile, PublisherProfile, profiles_by_matching
from runnel.workload.green import GreenParameters, make_green
from runnel.workload.market import open_market


@dataclass(frozen=True, slots=True)
class Outlook:
    """How plans did over all windows: the brokers that they used, and those of them that were overloaded."""

    brokers: tuple[int, ...]
    overloaded: tuple[int, ...]

    @property
    def share(self) -> float:
        """The share of brokers × windows that was overloaded."""
        return sum(self.overloaded) / max(1, sum(self.brokers))


@dataclass(frozen=True, slots=True)
class QuoteStream:
    """A network whose profiles have all publications of the stream, to be cut into windows of `width`."""

    network: Network
    width: int
    first: int  # the first window that is judged

    @property
    def windows(self) -> range:
        """The numbers of the windows that are judged."""
        return range(self.first, min(self.network.spans) // self.width)

    def between(self, begin: int, end: int) -> Network:
        """The network with the profiles of these publications, from `begin` up to but not including `end`."""
        mask = (1 << (end - begin)) - 1
        cut: list[Profile] = []
        for profile in self.network.profiles:
            bits = (
                (publisher, all_bits >> begin & mask) for publisher, all_bits in profile.items()
            )
            cut.append({publisher: found for publisher, found in bits if found})
        count = len(self.network.publishers)
        return replace(self.network, profiles=tuple(cut), spans=(end - begin,) * count)

    def past(self, window: int) -> Network:
        """What a planner knows before a window begins."""
        begin = window * self.width
        return self.between(max(0, begin - BITS), begin)

    def present(self, window: int) -> Network:
        """The window itself."""
        return self.between(window * self.width, (window + 1) * self.width)

    def judge(self, constraints: Constraints, algorithm: str = "CRAM-IOU") -> Outlook:
        """Plans of the past, judged by the windows that follow."""
        plans = (plan_layout(self.past(window), constraints, algorithm) for window in self.windows)
        return self._judge_layouts(plans)

    def judge_clairvoyant(self, algorithm: str = "CRAM-IOU") -> Outlook:
        """Plans of the very windows that they are judged by."""
        whole = Constraints()
        plans = (plan_layout(self.present(window), whole, algorithm) for window in self.windows)
        return self._judge_layouts(plans)

    def _judge_layouts(self, layouts: Iterator[Layout]) -> Outlook:
        brokers, overloaded = [], []
        for window, layout in zip(self.windows, layouts, strict=True):
            brokers.append(len(layout.parents))
            overloaded.append(len(find_overloaded(layout, self.present(window))))
        return Outlook(tuple(brokers), tuple(overloaded))


def make_stream(
    parameters: GreenParameters, seed: int, folder: Path, width: int, first: int
) -> QuoteStream:
    """The stream of a workload. It is as long as the shortest series of quotes; longer ones lose their oldest."""
    market = open_market(parameters, seed, folder)
    workload = make_green(parameters, seed, folder)
    length = min(len(quotes) for quotes in market.values())
    engine = make_engine()
    for number, subscriber in enumerate(workload.subscribers):
        engine.add(number, subscriber.selection)
    series = [list(quotes)[-length:] for quotes in market.values()]
    found = profiles_by_matching(
        series, lambda event: engine.match(event).ids(), len(workload.subscribers)
    )
    names = [f"B{number}" for number in range(parameters.brokers)]
    means = make_inventory("green", {"scenario": parameters.scenario}, names)
    network = Network(
        tuple(Capacity(name, means[name].output_bytes_per_second, DELAY) for name in names),
        tuple(
            PublisherProfile(one.name, one.rate_per_s, one.rate_per_s * MESSAGE_BYTES, length - 1)
            for one in workload.publishers
        ),
        tuple(one.name for one in workload.subscribers),
        found.profiles,
        found.spans,
    )
    return QuoteStream(network, width, first)


def plan_layout(network: Network, constraints: Constraints, algorithm: str) -> Layout:
    """The layout of a plan, without its document."""
    network = replace(network, foresight=constraints.foresight)
    items = network.items()
    task = task_of(network, constraints, items)
    return lay_out(task, items, network.traffic(), PlanOptions(algorithm)).layout


def find_overloaded(layout: Layout, network: Network) -> Sequence[str]:
    """The brokers that had more to do than they can."""
    loads = predict_loads(layout, network.items(), network.traffic())
    return overloaded_brokers(loads, {one.name: one for one in network.bins()})
