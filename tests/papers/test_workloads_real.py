"""The same checks on real data, where there is any: $RUNNEL_DATA, or shared/data beside the checkout."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runnel.workload.measure import measure
from runnel.workload.registry import make_workload

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = Path(os.environ.get("RUNNEL_DATA") or BESIDE)
POINT = 0.01
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
