"""The Zipf data sets keep their shares when they are made larger or smaller, and draw the same events again."""

from itertools import islice

import pytest

from runnel.workload.measure import measure
from runnel.workload.registry import make_workload


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize(("name", "matched", "share"), [("DT1", 0.08, 0.081), ("DT2", 0.53, 0.239)])
def test_the_shares_stay_when_the_size_changes(
    name: str, matched: float, share: float, seed: int
) -> None:
    table = {"data_set": name, "brokers": 60, "subscriptions": 2_000, "rate_per_min": 600}
    workload = make_workload("zipf", table, seed)
    assert workload.rate_per_s == pytest.approx(10)
    found = measure(workload, publications=8_000)
    assert found.matched_share == pytest.approx(matched, abs=0.01)
    assert found.brokers_reached / 60 == pytest.approx(share, abs=0.015)


def test_what_is_expected_is_what_is_measured() -> None:
    workload = make_workload("zipf", {"data_set": "DT4"})
    found = measure(workload, publications=20_000)
    assert found.matched_share == pytest.approx(workload.facts["matched_share"], abs=0.004)
    assert found.brokers_reached == pytest.approx(workload.facts["brokers_reached"], abs=0.08)


def test_a_publisher_starts_over_and_differs_from_others() -> None:
    one, other = make_workload("zipf").publishers[:2]
    events = list(islice(one.events, 50))
    assert events == list(islice(one.events, 50)) != list(islice(other.events, 50))


def test_popular_topics_are_at_more_brokers() -> None:
    workload = make_workload("zipf")
    places: dict[str, set[int | None]] = {}
    for one in workload.subscribers:
        places.setdefault(one.group, set()).add(one.broker)
    assert len(places["topic-1"]) > len(places["topic-2"]) > len(places["topic-10"]) >= 1
