"""CBC in a simulated network: profiles say what direct matching says, through everything that clients do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from runnel.broker.events import TimerFired
from runnel.language import parse
from runnel.modules.placement.migration import relocate
from runnel.modules.profiles.config import ProfilesConfig
from runnel.modules.profiles.messages import Bia, BiaEnd, Bir
from runnel.modules.profiles.module import AHEAD_MAX, REQUESTS_MAX, Cbc
from runnel.modules.profiles.rates import PERIOD_NS
from runnel.operate.picture import Answers, make_picture
from runnel.planning.profiles import profiles_by_matching, union
from runnel.quantities import SECOND
from runnel.wire import Advertise, Bye, Frame, Publication, Subscribe, make_publication
from support.door import ALL, Door
from support.oracle import BruteForce
from support.profiled import ON, ProfilesWorld

CHAIN = [("B1", "B2"), ("B2", "B3")]


def publish(
    world: ProfilesWorld, name: str, id: int, values: list[int], every_s: float = 0.05
) -> None:
    for value in values:
        world.client(name).publish(id, {"a": value})
        world.do(name, every_s)


@pytest.mark.parametrize("seed", range(4))
def test_profiles_are_what_direct_matching_says(seed: int) -> None:
    """Clients with one subscription and with several, at every broker; two publishers; all from a seed."""
    random = Random(seed)
    world = ProfilesWorld(CHAIN, ProfilesConfig(enabled=True, bits=64), seed)
    oracle = BruteForce()
    wants: dict[str, list[int]] = {}
    for n in range(12):
        name = f"c{n}"
        session = world.session(name, random.choice(["B1", "B2", "B3"]))
        for _ in range(random.choice([1, 1, 3])):
            selection = parse(f"a >= {random.randrange(10)} AND a <= {random.randrange(5, 15)}")
            number = len(oracle.selections)
            oracle.add(number, selection)
            wants.setdefault(name, []).append(number)
            session.subscribe(selection)
        world.do(name)
    publishers = {name: world.session(name, home) for name, home in (("p", "B1"), ("q", "B3"))}
    ids = {name: session.advertise(name, parse("a >= 0")) for name, session in publishers.items()}
    for name in publishers:
        world.do(name)
    values = {name: [random.randrange(15) for _ in range(100)] for name in publishers}
    for name in publishers:
        publish(world, name, ids[name], values[name])
    picture = make_picture(world.answers("B2"))
    windows = profiles_by_matching(
        [[{"a": value} for value in values[name][-64:]] for name in ("p", "q")],
        oracle.match,
        len(oracle.selections),
    )
    expected = [union(windows.profiles[n] for n in wants[name]) for name in sorted(wants)]
    assert picture.network.subscriptions == tuple(sorted(wants))
    assert picture.network.spans == windows.spans
    assert list(picture.network.profiles) == expected
    assert picture.network.counts == tuple(len(wants[name]) for name in sorted(wants))


def test_rates_and_bytes_are_those_of_the_recent_past() -> None:
    world = ProfilesWorld(CHAIN)
    world.publisher("p", "B1")
    world.subscribers("B3", 1)
    world.publish("p", range(100), every_s=0.5, then_s=0.0)  # 2 a second
    world.publish("p", range(900), every_s=0.1, then_s=0.0)  # then 10
    [publisher] = make_picture(world.answers("B1")).network.publishers
    size = len(make_publication(1, 1, {"a": 1}, publisher="p").raw)
    assert publisher.rate == pytest.approx(10, rel=0.15)  # CROC took six seconds of silence
    assert publisher.bandwidth == pytest.approx(publisher.rate * size, rel=0.05)
    assert publisher.last == 1_000


def test_a_client_that_subscribes_and_unsubscribes_has_the_profile_of_what_it_still_wants() -> None:
    world = ProfilesWorld(CHAIN)
    world.publisher("p", "B1")
    session = world.session("c", "B3")
    first, second = session.subscribe(parse("a < 5")), session.subscribe(parse("a >= 5"))
    world.do("c")
    world.publish("p", range(10))
    assert make_picture(world.answers("B1")).network.profiles == ({0: (1 << 10) - 1},)
    session.unsubscribe(first)
    world.do("c")
    network = make_picture(world.answers("B1")).network
    assert (network.profiles, network.counts) == (({0: 0b11111},), (1,))  # from 5 on
    session.unsubscribe(second)
    world.do("c")
    assert world.answers("B1").subscriptions == []


def test_a_client_that_comes_back_has_new_ids_and_its_old_name() -> None:
    world = ProfilesWorld(CHAIN)
    world.publisher("p", "B1")
    [name] = world.subscribers("B3", 1)
    world.publish("p", range(10))
    before = [told for _, told in world.answers("B1").subscriptions]
    world.world.crash(world.world.hosts["B3"])
    world.run(1)
    world.start("B3")
    world.run(5)
    world.publish("p", range(10))
    [(broker, told)] = world.answers("B1").subscriptions
    assert (broker, told.client) == ("B3", name)
    assert told.id != before[0].id
    [vector] = told.vectors
    assert (vector.first, int.from_bytes(vector.bits, "little")) == (11, (1 << 10) - 1)


def test_a_publisher_that_migrates_is_known_at_once_where_it_comes_to() -> None:
    world = ProfilesWorld(CHAIN)
    world._migrates = True
    world.publisher("p", "B1")
    world.subscribers("B3", 1)
    world.publish("p", range(400), every_s=0.1)
    broker = world.broker("B1")
    [row] = [row for row in broker.tables.srt.values() if row.publisher == "p"]
    relocate(broker, row.id, "B3", "runnel://B3:1", world.world.now)
    world.world.perform(world.world.hosts["B1"], broker._flush())
    world.run(1)
    picture = make_picture(world.answers("B2"))
    assert picture.network.publisher_homes == ("B3",)
    assert picture.network.publishers[0].rate == pytest.approx(10, rel=0.1)
    world.publish("p", range(20), every_s=0.1)
    picture = make_picture(world.answers("B2"))
    assert (picture.network.publishers[0].last, picture.network.spans) == (420, (420,))
    assert picture.network.profiles == ({0: (1 << 420) - 1},)
    world.run(3 * PERIOD_NS / SECOND)
    told = dict(world.answers("B2").publishers)
    assert list(told) == ["B3"], "the old broker has forgotten it"


def test_a_broker_without_profiles_watches_nothing_and_says_so() -> None:
    cbc = Cbc()
    assert not (cbc.watches_publications or cbc.watches_tables or cbc.marks_publications)
    world = ProfilesWorld(CHAIN, ProfilesConfig())
    world.publisher("p", "B1")
    world.subscribers("B3", 2)
    world.publish("p", range(5))
    answers = world.answers("B2")
    assert {name: told.profiles for name, told in answers.brokers.items()} == {
        "B1": False,
        "B2": False,
        "B3": False,
    }
    assert answers.publishers == answers.subscriptions == []


def test_a_broker_tells_what_it_is_and_what_it_can() -> None:
    given = ProfilesConfig(True, 128, 5_000, matching_base_us=20, matching_each_us=0.5)
    world = ProfilesWorld(CHAIN, given)
    brokers = world.answers("B1").brokers
    assert {name: set(told.neighbours) for name, told in brokers.items()} == {
        "B1": {"B2"},
        "B2": {"B1", "B3"},
        "B3": {"B2"},
    }
    told = brokers["B3"]
    assert (told.address, told.bits, told.output_bytes_per_s) == ("runnel://B3:1", 128, 5_000)
    assert (told.matching_base_ns, told.matching_each_ns) == (20_000, 500)


# -- one broker behind its door -----------------------------------------------------------------------


def door(config: ProfilesConfig = ON, clock: Callable[[], int] | None = None) -> tuple[Door, Cbc]:
    cbc = Cbc(config, limit=9_000)
    return Door(modules=(cbc,), clock=clock), cbc


def in_rounds(one: Door, conn: int) -> list[list[Frame]]:
    """What a peer gets, and gets when it is time for more, until nothing more comes."""
    rounds = [one.received(conn)]
    while "cbc:pump" in one.timers:
        one.now = max(one.now, one.timers.pop("cbc:pump"))
        one.event(TimerFired("cbc:pump"))
        rounds.append(one.received(conn))
    return rounds


def test_matching_is_measured_where_it_is_not_configured() -> None:
    one, _ = door(clock=iter(range(0, 10**9, 10_000)).__next__)  # each look at it takes so long
    one.connect(1, "pub")
    one.connect(2, "sub")
    one.arrive(1, Advertise(7, ALL, "p", 9))
    one.arrive(2, Subscribe(20, ALL, 9))
    for counter in range(1, 201):
        one.arrive(1, make_publication(7, counter, {}))
    one.connect(3, "croc", "operator")
    one.received(3)
    one.arrive(3, Bir(5, SECOND))
    head = next(frame for frame in one.received(3) if isinstance(frame, Bia))
    answers = Answers()
    answers.take(head)
    told = answers.brokers["B"]
    assert (told.matching_base_ns, told.matching_each_ns) == (10_000, 0)
    assert told.output_bytes_per_s == 9_000


def test_a_client_is_sent_one_copy_however_many_of_its_subscriptions_want_it() -> None:
    """Why a client's need of output is that of the OR of its profiles."""
    one, _ = door()
    one.connect(1, "pub")
    one.connect(2, "sub")
    one.arrive(1, Advertise(7, ALL, "p", 9))
    for id in (20, 21, 22):
        one.arrive(2, Subscribe(id, ALL, 9))
    one.received(2)
    one.arrive(1, make_publication(7, 1, {}))
    assert [type(frame) for frame in one.received(2)] == [Publication]


def test_an_answer_comes_in_pieces_and_does_not_fill_the_link() -> None:
    one, _ = door(ProfilesConfig(enabled=True, bits=65_536))
    one.connect(1, "pub")
    one.arrive(1, Advertise(7, ALL, "p", 9))
    for n in range(60):
        one.connect(10 + n, f"c{n}")
        one.arrive(10 + n, Subscribe(100 + n, ALL, 9))
    for counter in (1, 60_000):
        one.arrive(1, make_publication(7, counter, {}))
    one.connect(3, "croc", "operator")
    one.received(3)
    one.arrive(3, Bir(5, SECOND))
    rounds = in_rounds(one, 3)
    assert len(rounds) > 1 and max(map(len, rounds)) <= AHEAD_MAX
    pieces: list[Any]
    *pieces, end = [frame for frames in rounds for frame in frames]
    assert end == BiaEnd(5, ())
    assert len(pieces) > 8 and max(len(piece.body) for piece in pieces) < 100_000  # type: ignore[union-attr]
    answers = Answers()
    for piece in pieces:
        answers.take(piece)  # type: ignore[arg-type]
    assert {told.client for _, told in answers.subscriptions} == {f"c{n}" for n in range(60)}


def test_only_so_many_ask_at_a_time_and_nobody_twice() -> None:
    one, cbc = door()
    one.connect(2, "N", "broker")  # it never answers
    one.connect(3, "croc", "operator")
    one.received(3)
    for token in range(1, REQUESTS_MAX + 1):
        one.arrive(3, Bir(token, SECOND))
    assert not any(isinstance(frame, BiaEnd) for frame in one.received(3))
    for token in (1, REQUESTS_MAX + 1):
        one.arrive(3, Bir(token, SECOND))
        assert one.received(3) == [BiaEnd(token, ("B",))]
    one.now = SECOND
    one.event(TimerFired("cbc:deadline"))
    ends = [frame for frames in in_rounds(one, 3) for frame in frames]
    assert ends == [BiaEnd(token, ("N",)) for token in range(1, REQUESTS_MAX + 1)]
    assert cbc._requests == {}


def test_what_nobody_asked_for_is_not_handed_on() -> None:
    one, _ = door()
    one.connect(2, "N", "broker")
    one.connect(3, "croc", "operator")
    one.received(3)
    one.arrive(2, Bia(5, "N", b"x"), BiaEnd(5, ()))
    one.arrive(3, Bir(5, SECOND))
    one.connect(4, "late", "broker")
    one.arrive(4, BiaEnd(5, ()))  # from one that was not asked
    assert all(frame.broker == "B" for frame in one.received(3) if isinstance(frame, Bia))
    one.arrive(2, Bia(5, "N", b"x"), BiaEnd(5, ("M",)))
    assert one.received(3) == [Bia(5, "N", b"x"), BiaEnd(5, ("M",))]


def test_nothing_is_left_of_a_request_whose_asker_has_gone() -> None:
    one, cbc = door()
    one.connect(2, "N", "broker")  # it never answers
    one.connect(3, "croc", "operator")
    one.arrive(3, Bir(5, 600 * SECOND))
    assert list(cbc._requests) == [5]
    one.arrive(3, Bye("enough"))
    assert cbc._requests == {}
    one.arrive(2, Bia(5, "N", b"x"), BiaEnd(5, ()))  # for nobody
    one.now = 600 * SECOND
    one.event(TimerFired("cbc:deadline"))
