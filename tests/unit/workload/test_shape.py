"""A workload is plain data: names once, joins and leaves in order, and events that start over."""

from itertools import islice

import pytest

from runnel.errors import InputError
from runnel.language import EVERYTHING
from runnel.quantities import SECOND
from runnel.workload.measure import measure, timeline
from runnel.workload.shape import Change, Loop, RateChange, Subscriber, Workload, WorkloadPublisher


def publisher(name: str = "p", rate: float = 2.0, broker: int | None = None) -> WorkloadPublisher:
    return WorkloadPublisher(name, EVERYTHING, rate, Loop([{"a": 1}, {"a": 2}]), broker)


def test_a_name_is_used_once() -> None:
    with pytest.raises(InputError, match="two clients are named 'x'"):
        Workload("w", (publisher("x"),), (Subscriber("x", EVERYTHING),))


def test_joins_and_leaves_come_in_order_of_time() -> None:
    one = Subscriber("one", EVERYTHING, joins_ns=5, leaves_ns=9)
    other = Subscriber("other", EVERYTHING, joins_ns=9)
    assert Workload("w", (), (other, one)).changes() == [
        Change(5, "join", 1),
        Change(9, "join", 0),
        Change(9, "leave", 1),
    ]


def test_brokers_are_counted_from_the_indexes() -> None:
    assert Workload("w", (publisher(broker=4),), (Subscriber("s", EVERYTHING, 2),)).brokers == 5
    assert Workload("w", (publisher(),), ()).brokers == 0


def test_a_loop_starts_over_for_everybody_who_asks() -> None:
    loop = Loop([{"a": 1}, {"a": 2}])
    assert list(islice(loop, 3)) == list(islice(loop, 3)) == [{"a": 1}, {"a": 2}, {"a": 1}]


def test_a_rate_holds_until_it_changes() -> None:
    one = WorkloadPublisher(
        "p", EVERYTHING, 1.0, [], rate_changes=(RateChange(10, 2.0), RateChange(20, 3.0))
    )
    assert [one.rate_at(at) for at in (0, 9, 10, 19, 20)] == [1.0, 1.0, 2.0, 2.0, 3.0]


def test_the_timeline_keeps_rates_and_ends_with_the_events() -> None:
    short = WorkloadPublisher("short", EVERYTHING, 1.0, [{"a": 0}] * 3)
    times = [at for at, one, _ in timeline(Workload("w", (short,), ()))]
    assert times == [0, SECOND, 2 * SECOND]
    both = Workload("w", (publisher("fast", 10.0), publisher("slow", 1.0)), ())
    found = measure(both, seconds=10)
    assert found.by_publisher == {"fast": 100, "slow": 10}


def test_measuring_counts_matches_and_brokers() -> None:
    subscribers = (
        Subscriber("x", EVERYTHING, 0, "all"),
        Subscriber("y", EVERYTHING, 0, "all"),
        Subscriber("z", EVERYTHING, None),
    )
    found = measure(Workload("w", (publisher(),), subscribers), publications=4, groups=True)
    assert (found.publications, found.matched_share, found.brokers_reached) == (4, 1.0, 1.0)
    assert found.by_group == {"all": 8, "": 4}
