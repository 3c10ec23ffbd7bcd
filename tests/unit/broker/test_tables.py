"""SRT and PRT with the indexes beside them: always in step, and numbers used again."""

from __future__ import annotations

import pytest

from runnel.broker.links import Link, LinkConfig
from runnel.broker.tables import AdvertisementRow, OwnMatcher, Tables
from runnel.language import parse
from runnel.matching import make_engine
from runnel.wire import make_publication, raw_selection


def link(number: int) -> Link:
    return Link(f"L{number}", "broker", number, 1, LinkConfig(), 0, {})


L0, L1, L2 = link(0), link(1), link(2)


def advertise(tables: Tables, id: int, text: str, over: Link) -> None:
    selection = parse(text)
    tables.add_advertisement(
        AdvertisementRow(id, selection, raw_selection(selection), "publisher", 9, over)
    )


def subscribe(tables: Tables, id: int, text: str, over: Link) -> None:
    selection = parse(text)
    tables.add_subscription(id, selection, raw_selection(selection), 9, over)


def hops(tables: Tables, **attributes: int) -> list[int]:
    return sorted(tables.hops(make_publication(7, 1, attributes)))


@pytest.fixture(params=["index", "auto"])
def tables(request: pytest.FixtureRequest) -> Tables:
    return Tables(OwnMatcher(make_engine(request.param)))


def test_hops_are_the_links_behind_which_somebody_wants_it(tables: Tables) -> None:
    subscribe(tables, 1, "a > 5", L0)
    subscribe(tables, 2, "a > 9", L1)
    subscribe(tables, 3, "a > 8", L1)
    assert hops(tables, a=10) == [0, 1], "each link once"
    assert hops(tables, a=6) == [0]
    assert hops(tables, a=1) == []


def test_a_subscription_that_is_removed_counts_no_more_and_its_number_is_used_again(
    tables: Tables,
) -> None:
    subscribe(tables, 1, "a > 5", L0)
    subscribe(tables, 2, "a > 5", L1)
    row = tables.remove_subscription(1)
    assert row.link is L0
    assert hops(tables, a=6) == [1]
    subscribe(tables, 3, "a < 5", L2)
    assert tables.prt[3].number == row.number
    assert hops(tables, a=4) == [2]
    assert hops(tables, a=6) == [1]


def test_numbers_stay_dense_through_churn(tables: Tables) -> None:
    for id in range(100):
        subscribe(tables, id, f"a = {id % 7}", L0)
        if id >= 10:
            tables.remove_subscription(id - 10)
    assert {row.number for row in tables.prt.values()} <= set(range(11))
    assert hops(tables, a=99 % 7) == [0]


def test_advertised_means_that_an_advertisement_of_that_link_intersects(tables: Tables) -> None:
    advertise(tables, 1, "a > 5", L0)
    advertise(tables, 2, "b = 3", L1)
    assert tables.is_advertised(L0, parse("a > 9"))
    assert not tables.is_advertised(L0, parse("a < 3"))
    assert not tables.is_advertised(L2, parse("a > 9"))
    assert tables.remove_advertisement(1).publisher == "publisher"
    assert not tables.is_advertised(L0, parse("a > 9"))
    assert list(tables.srt) == [2]


def test_one_of_two_advertisements_goes_and_the_other_still_counts(tables: Tables) -> None:
    advertise(tables, 1, "a > 5", L0)
    advertise(tables, 2, "a > 7", L0)
    tables.remove_advertisement(1)
    assert tables.is_advertised(L0, parse("a > 6"))
    assert not tables.is_advertised(L0, parse("a < 6"))


def test_subscriptions_that_intersect_an_advertisement(tables: Tables) -> None:
    subscribe(tables, 1, "a > 5", L0)
    subscribe(tables, 2, "a < 3", L1)
    subscribe(tables, 3, "a > 1 AND b = 2", L1)
    found = [row.id for row in tables.subscriptions_intersecting(parse("a > 4"))]
    assert sorted(found) == [1, 3]


def test_what_came_over_a_link(tables: Tables) -> None:
    advertise(tables, 1, "a > 5", L0)
    advertise(tables, 2, "a > 5", L1)
    subscribe(tables, 3, "a > 5", L0)
    subscribe(tables, 4, "a > 6", L0)
    assert [sorted(ids) for ids in tables.ids_from_link(L0)] == [[1], [3, 4]]
    assert [list(ids) for ids in tables.ids_from_link(L2)] == [[], []]
