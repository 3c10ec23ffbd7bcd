"""The same checks on real data, where there is any: $RUNNEL_DATA, or shared/data beside the checkout."""

import os
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

from runnel.lab.experiments.green.unseen import make_stream
from runnel.planning.documents.constraints import Constraints
from runnel.planning.foresight import Foresight
from runnel.planning.profiles import BITS
from runnel.workload.green import GreenParameters
from runnel.workload.measure import measure
from runnel.workload.registry import make_workload

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = Path(os.environ.get("RUNNEL_DATA") or BESIDE)
POINT = 0.01
WIDTH, FIRST = 254, 3  # a year of trading; of nine, the first three are past only
pytestmark = pytest.mark.external
QUOTES = "stocks_padres/quotes.parquet"
STREAMS = [
    "events_earthquakes/quakes.parquet",
    "events_flights_nyc_2013/flights.parquet",
    "events_wikipedia_edits/edits.parquet",
    "sensors_beijing_air/readings.parquet",
]


def need(*files: str) -> None:
    for file in files:
        if not (DATA / file).is_file():
            pytest.skip(f"{file} is not there: set RUNNEL_DATA to a folder that has it")


def test_real_quotes_sink_what_the_placement_paper_says() -> None:
    need(QUOTES)
    table = {"templates": "placement", "quotes": QUOTES, "order": "shuffled"}
    workload = make_workload("stocks", table, folder=DATA)
    found = measure(workload, publications=40_000, groups=True)
    count = Counter(one.group for one in workload.subscribers)
    for rating, about in (("low", 0.10), ("medium", 0.50), ("high", 1.0)):
        sunk = found.by_group[rating] / count[rating] / (found.publications / 40)
        assert sunk == pytest.approx(about, abs=POINT)


def test_real_quotes_let_half_of_greens_inequalities_through() -> None:
    need(QUOTES)
    table = {"templates": "green", "quotes": QUOTES, "order": "shuffled"}
    workload = make_workload("stocks", table, folder=DATA)
    found = measure(workload, publications=40_000, groups=True)
    share = found.by_group["inequality"] / 4_800 / (found.publications / 40)
    assert share == pytest.approx(0.5, abs=POINT)


def test_greens_printed_inequality_has_as_many_groups_as_the_paper_says() -> None:
    """Grouping equal profiles leaves about 3,200 of 8,000 (green §IV-C1: 61% fewer)."""
    need(QUOTES)
    parameters = GreenParameters(quotes=QUOTES, inequality="low")
    stream = make_stream(parameters, 1, DATA, WIDTH, FIRST)
    length = min(stream.network.spans)
    network = stream.between(length - BITS, length)
    groups = {tuple(profile.items()) for profile in network.profiles}
    assert len(network.profiles) == 8_000 and len(groups) == pytest.approx(3_200, rel=0.05)


@pytest.mark.parametrize("scenario", ["homogeneous", "heterogeneous"])
def test_learned_head_room_overloads_hardly_a_broker_in_years_not_seen(
    scenario: Literal["homogeneous", "heterogeneous"],
) -> None:
    """2,000 subscriptions, or 4,100 in all; `make bench-headroom` has more."""
    need(QUOTES)
    each = 50 if scenario == "homogeneous" else 200
    parameters = GreenParameters(quotes=QUOTES, scenario=scenario, per_publisher=each)
    stream = make_stream(parameters, 1, DATA, WIDTH, FIRST)
    assert len(stream.windows) == 6
    learned = stream.judge(Constraints(foresight=Foresight()))
    clairvoyant = stream.judge_clairvoyant()
    assert learned.share <= 0.01
    assert sum(learned.brokers) <= 1.15 * sum(clairvoyant.brokers)
    uniform = stream.judge(Constraints(headroom_percent=2))
    assert sum(uniform.overloaded) >= 10  # it is not that nothing happens in these years


@pytest.mark.parametrize("stream", STREAMS)
def test_filters_from_a_streams_own_values_have_the_wanted_selectivity(stream: str) -> None:
    need(stream)
    table: dict[str, Any] = {"path": stream, "selectivity": 0.05, "rows_max": 10_000}
    workload = make_workload("events", table, folder=DATA)
    found = measure(workload, publications=10_000)
    assert found.matched_share == pytest.approx(0.05, abs=POINT)


def test_real_friends_reach_the_printed_share_of_brokers() -> None:
    friends = "social_ego_facebook/friends.parquet"
    need(friends)
    workload = make_workload("social", {"friends": friends}, folder=DATA)
    assert len(workload.subscribers) == 2 * 88_234
    found = measure(workload, publications=6_000)
    assert found.brokers_reached / 120 == pytest.approx(0.065, abs=POINT)


def test_real_interactions_are_what_is_published() -> None:
    friends, said = "social_copenhagen/friends.parquet", "social_copenhagen/interactions.parquet"
    need(friends, said)
    table = {"friends": friends, "interactions": said, "reached_share": 0}
    workload = make_workload("social", table, folder=DATA)
    kinds = {event["kind"] for one in workload.publishers for event in one.events.events}  # type: ignore[attr-defined]
    assert kinds == {"sms", "call"}
    assert len(workload.subscribers) == 2 * (6_429 - 11)
    assert measure(workload, publications=5_000).matches > 5_000
