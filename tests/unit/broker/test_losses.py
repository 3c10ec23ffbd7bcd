"""Losses: who is told of a link that is lost or of what a full queue dropped, and when it is over. B1 – B2 – B3 – …"""

from __future__ import annotations

from typing import Any

from runnel.broker.connections import EXPIRED
from runnel.broker.links import Drops, LinkConfig
from runnel.broker.losses import LINK_LOST, QUEUE_FULL
from runnel.client.effects import Deliver, Gap, Moved
from runnel.client.migration import MigrationStep, PublisherMigration
from runnel.client.session import Session
from runnel.language import parse
from runnel.modules.placement.migration import Migration
from runnel.quantities import SECOND
from runnel.wire import Loss, make_publication
from runnel.wire.messages import LOSS_IDS_MAX, LOSS_NAMES_MAX
from support.harness import StepNetwork

NOW = 500_000 * SECOND
LOST_NS = 15 * SECOND  # until a link that is down is forgotten


def chain(count: int, **config: Any) -> StepNetwork:
    net = StepNetwork(now=NOW)
    for number in range(count, 0, -1):
        start(net, number, count, **config)
    net.settle()
    return net


def migrate_and_withdraw(net: StepNetwork, source: Session, id: int, broker: str) -> None:
    """A publisher goes to another broker, and withdraws there while something is under way from where it was."""
    target = net.session("p/2", broker)
    migration = PublisherMigration(id, source, target, net.now, SECOND)
    for _ in MigrationStep:
        migration.advance(net.now)
        net.settle()
    assert migration.step is MigrationStep.CROSSING
    target.close()
    source.close()
    net.settle()
    tables = net.nodes[broker].tables
    assert (len(tables.srt), len(tables.leaving)) == (0, 1)


def start(net: StepNetwork, number: int, count: int, **config: Any) -> None:
    """Start a broker of the chain; each dials the next."""
    dials = (f"B{number + 1}",) if number < count else ()
    accepts = (f"B{number - 1}",) if number > 1 else ()
    net.broker(f"B{number}", *dials, accepts=accepts, **config)


def lose(net: StepNetwork, broker: str) -> None:
    """A broker is gone, and its neighbours have forgotten the links to it."""
    net.crash(broker)
    net.advance(LOST_NS)
    assert EXPIRED in [trace.data.get("reason") for _, trace in net.traces]


def restart(net: StepNetwork, number: int, count: int) -> None:
    start(net, number, count)
    net.advance(2 * SECOND)


def gaps(net: StepNetwork, client: str) -> list[tuple[str, bool, tuple[str, ...]]]:
    """What a client was told: where, whether it is open, of whom."""
    return [(gap.link, gap.is_open, gap.publishers) for gap in net.effects(client, Gap)]


def publish(net: StepNetwork, client: str, id: int, values: range | list[int]) -> None:
    for value in values:
        net.nodes[client].publish(id, {"a": value}, time_ns=net.now)


def opened(net: StepNetwork, broker: str) -> list[str]:
    return list(net.nodes[broker].losses.open)


# -- who is told, and of what ---------------------------------------------------------------------------


def test_both_ends_are_told_of_a_broker_that_is_gone_and_when_it_is_back() -> None:
    net = chain(3)
    _, id = net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B3", "a > 0")
    net.advance(5 * SECOND)
    publish(net, "p", id, [1])
    net.settle()
    net.crash("B2")
    crashed_at = net.now
    publish(net, "p", id, [2, 3])
    net.settle()
    net.advance(LOST_NS)
    (of_s,) = net.effects("s", Gap)
    (of_p,) = net.effects("p", Gap)
    assert (of_s.link, of_s.publishers, of_s.reason) == ("B2–B3", ("p",), LINK_LOST)
    assert (of_p.link, of_p.publishers, of_p.is_ours) == ("B1–B2", ("p",), True)
    for gap in (of_s, of_p):
        assert gap.is_open
        assert crashed_at - 3 * SECOND <= gap.since_ns <= crashed_at
    restart(net, 2, 3)
    over_s, over_p = net.effects("s", Gap)[-1], net.effects("p", Gap)[-1]
    for gap in (over_s, over_p):
        assert not gap.is_open
        assert crashed_at + LOST_NS <= gap.until_ns <= net.now
    publish(net, "p", id, [4])
    net.settle()
    assert net.delivered("s") == [1, 4]
    assert [len(net.effects(client, Gap)) for client in "sp"] == [2, 2]
    assert opened(net, "B1") == opened(net, "B3") == []


def test_who_is_not_concerned_is_told_nothing() -> None:
    net = chain(3)
    net.publisher("p", "B1", "a > 0")
    net.publisher("other", "B1", "a < 0")
    net.subscriber("here", "B1", "a > 0")
    net.subscriber("else", "B3", "a = 0")
    net.subscriber("s", "B3", "a > 0")
    lose(net, "B2")
    restart(net, 2, 3)
    assert gaps(net, "s") == [("B2–B3", True, ("p",)), ("B2–B3", False, ("p",))]
    assert [gaps(net, name) for name in ("other", "here", "else")] == [[], [], []]


def test_a_link_nobody_published_over_is_lost_without_a_word() -> None:
    net = chain(3)
    net.subscriber("s", "B3", "a > 0")
    lose(net, "B2")
    assert opened(net, "B1") == opened(net, "B3") == []
    assert gaps(net, "s") == []


def test_who_published_first_while_the_link_was_missing_is_told_of_when_it_is_back() -> None:
    net = chain(3)
    net.subscriber("s", "B3", "a > 0")
    net.subscriber("far", "B3", "a < 0")
    net.subscriber("here", "B2", "a > 0")
    net.advance(5 * SECOND)
    net.hold("B1", "B2")
    net.hold("B2", "B1")
    parted_at = net.now
    net.advance(LOST_NS)
    _, id = net.publisher("p", "B1", "a > 0")
    published_at = net.now
    publish(net, "p", id, [1])
    net.settle()
    assert gaps(net, "s") == [], "nobody there can know of the publisher"
    net.release("B1", "B2")
    net.release("B2", "B1")
    net.advance(2 * SECOND)
    for client in ("s", "here"):
        begun, over = net.effects(client, Gap)
        assert (begun.link, begun.publishers, begun.is_open) == ("B1–B2", ("p",), True)
        assert parted_at - 3 * SECOND <= begun.since_ns <= parted_at
        assert not over.is_open and published_at < over.until_ns
    assert gaps(net, "far") == []
    publish(net, "p", id, [2])
    net.settle()
    assert net.delivered("s") == [2]
    assert opened(net, "B2") == opened(net, "B3") == []
    net.publisher("later", "B1", "a > 0")
    assert len(net.effects("s", Gap)) == 2


def test_who_published_first_behind_a_broker_that_begins_anew_is_told_of_too() -> None:
    net = chain(4)
    for client, home in (("s", "B3"), ("far", "B4")):
        net.subscriber(client, home, "a > 0")
    lose(net, "B2")
    _, id = net.publisher("p", "B1", "a > 0")
    published_at = net.now
    publish(net, "p", id, [1])
    net.settle()
    net.unreachable["B2"] = None  # for B1, which dials it
    restart(net, 2, 4)
    assert opened(net, "B3") == gaps(net, "s") == []
    net.publisher("here", "B2", "a > 0")
    net.unreachable.clear()
    net.advance(2 * SECOND)
    publish(net, "p", id, [2])
    net.settle()
    assert net.delivered("s") == net.delivered("far") == [2]
    for client in ("s", "far"):
        begun, over = net.effects(client, Gap)
        assert (begun.link, begun.is_open, over.is_open) == ("B2–B3", True, False)
        assert "p" in begun.publishers
        assert begun.since_ns <= published_at < over.until_ns
    assert [opened(net, f"B{number}") for number in (1, 2, 3, 4)] == [[], [], [], []]
    assert not net.nodes["B3"].losses._outages


def test_a_blip_is_no_loss() -> None:
    net = chain(3)
    _, id = net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B3", "a > 0")
    net.cut("B1", "B2")
    publish(net, "p", id, [1, 2])
    net.settle()
    net.advance(3 * SECOND)
    assert net.delivered("s") == [1, 2]
    assert gaps(net, "s") == gaps(net, "p") == []


def test_a_loss_is_passed_on_to_whoever_is_behind_however_far() -> None:
    net = chain(6)
    net.publisher("p", "B1", "a > 0")
    net.publisher("q", "B6", "a > 0")
    net.subscriber("far", "B6", "a > 0")
    net.subscriber("near", "B4", "a > 0")
    lose(net, "B2")
    assert gaps(net, "far") == gaps(net, "near") == [("B2–B3", True, ("p",))]
    assert [opened(net, f"B{n}") for n in (3, 4, 5, 6)] == [["B2–B3"]] * 4
    # Nobody behind the lost broker subscribes, so nobody misses what `q` publishes.
    assert gaps(net, "q") == []
    restart(net, 2, 6)
    assert gaps(net, "far")[1:] == gaps(net, "near")[1:] == [("B2–B3", False, ("p",))]
    assert [opened(net, f"B{n}") for n in (1, 3, 4, 5, 6)] == [[]] * 5


def test_a_restart_before_anybody_missed_it_is_told_too() -> None:
    net = chain(3)
    _, id = net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B3", "a > 0")
    net.advance(3 * SECOND)
    net.crash("B2")
    start(net, 2, 3)
    net.settle()
    net.advance(2 * SECOND)
    assert gaps(net, "s") == [
        ("B2–B3", True, ("p",)),
        ("B1–B2", True, ()),  # it was not there yet when the other was whole
        ("B2–B3", False, ("p",)),
        ("B1–B2", False, ()),
    ]
    publish(net, "p", id, [1])
    net.settle()
    assert net.delivered("s") == [1]


def test_what_was_published_before_a_link_began_is_in_the_interval_of_its_loss() -> None:
    """It was on its way elsewhere, and a subscriber that has moved since was ready for it."""
    net = chain(3)
    _, id = net.publisher("p", "B1", "a > 0")
    s, _ = net.subscriber("s", "B2", "a > 0")
    net.advance(3 * SECOND)
    net.hold("p", "B1")
    publish(net, "p", id, [1])
    published_at = net.now
    net.settle()
    net.crash("B3")
    start(net, 3, 3)
    net.advance(SECOND // 2)
    s.move_to("B3", net.now, SECOND)
    net.settle()
    assert [moved.broker for moved in net.effects("s", Moved)] == ["B3"]
    net.hold("B2", "B3")
    net.release("p", "B1")
    net.settle()
    net.crash("B2")
    net.advance(LOST_NS)
    assert net.delivered("s") == []
    (gap,) = net.effects("s", Gap)
    assert (gap.link, gap.is_open) == ("B2–B3", True)
    assert published_at - 3 * SECOND <= gap.since_ns <= published_at


def test_what_waits_for_a_lost_link_is_in_the_interval_of_its_publisher() -> None:
    net = chain(2, link=LinkConfig(window_bytes=1))
    _, id = net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B2", "a > 0")
    net.advance(3 * SECOND)
    net.hold("B1", "B2")
    published_at = net.now
    publish(net, "p", id, range(1, 9))
    net.settle()
    for _ in range(20):  # meanwhile the other direction goes on
        net.now += SECOND // 10
        net.settle()
    net.crash("B2")
    net.advance(LOST_NS)
    assert net.effects("p", Gap)[0].since_ns <= published_at


def test_what_a_broker_that_is_gone_had_not_handed_on_is_in_the_interval_of_its_publisher() -> None:
    net = chain(3)
    _, id = net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B3", "a > 0")
    net.advance(3 * SECOND)
    net.hold("B2", "B3")
    published_at = net.now
    publish(net, "p", id, [1])
    net.advance(5 * SECOND // 2)  # meanwhile the other direction goes on
    link = net.nodes["B1"].links["B2"]
    assert not link.in_doubt and link.watermark_ns > published_at
    net.crash("B2")
    net.advance(LOST_NS)
    gap = net.effects("p", Gap)[0]
    assert published_at - 3 * SECOND <= gap.since_ns <= published_at


# -- when it is over ------------------------------------------------------------------------------------


def test_it_is_over_only_when_the_routes_are_there() -> None:
    net = chain(3)
    net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B3", "a > 0")
    lose(net, "B2")
    start(net, 2, 3)
    net.hold("B2", "B1")  # subscriptions do not get to where the publisher is
    net.advance(2 * SECOND)
    assert gaps(net, "s") == [("B2–B3", True, ("p",))]
    net.release("B2", "B1")
    net.advance(2 * SECOND)
    assert gaps(net, "s")[1:] == [("B2–B3", False, ("p",))]


def test_it_waits_for_the_barrier_to_come_back() -> None:
    net = chain(3)
    net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B3", "a > 0")
    lose(net, "B2")
    start(net, 2, 3)
    while not net.nodes["B3"].losses.open["B2–B3"].token:
        assert net.step() or net.timers
        if not net.queue:
            net.advance(SECOND // 2)
    assert opened(net, "B3") == ["B2–B3"]
    net.advance(2 * SECOND)
    assert opened(net, "B3") == []


def test_it_goes_on_where_another_link_is_missing_behind() -> None:
    net = chain(4)
    _, id = net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B4", "a > 0")
    net.advance(3 * SECOND)
    net.crash("B2")
    net.crash("B3")
    net.advance(LOST_NS)
    since_ns = net.effects("s", Gap)[0].since_ns
    restart(net, 3, 4)
    assert opened(net, "B4") == ["B2–B3"]
    assert gaps(net, "s") == [
        ("B3–B4", True, ("p",)),
        ("B2–B3", True, ()),
        ("B3–B4", False, ("p",)),
    ]
    assert net.effects("s", Gap)[1].since_ns == since_ns
    restart(net, 2, 4)
    assert gaps(net, "s")[3:] == [("B2–B3", False, ())]
    publish(net, "p", id, [1])
    net.settle()
    assert net.delivered("s") == [1]


def test_lost_again_before_it_was_over_it_stays_open() -> None:
    net = chain(3)
    net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B3", "a > 0")
    lose(net, "B2")
    start(net, 2, 3)
    net.hold("B2", "B3")
    net.advance(SECOND)
    net.crash("B2")
    net._held.clear()
    net.advance(LOST_NS)
    assert gaps(net, "s") == [("B2–B3", True, ("p",))]
    restart(net, 2, 3)
    assert gaps(net, "s")[1:] == [("B2–B3", False, ("p",))]


def test_a_neighbour_that_left_for_good_leaves_no_loss_behind() -> None:
    net = chain(4)
    net.publisher("p", "B4", "a > 0")
    net.subscriber("s", "B1", "a > 0")
    lose(net, "B3")
    assert opened(net, "B1") == ["B2–B3"]
    net.nodes["B2"].hang_up("B1", "not needed any more")
    net.advance(2 * SECOND)
    assert opened(net, "B1") == []
    assert net.nodes["s"].gaps.open == {}


# -- clients that come and go meanwhile -----------------------------------------------------------------


def test_who_subscribes_meanwhile_is_told_if_it_is_concerned() -> None:
    net = chain(3)
    net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B3", "a > 0")
    lose(net, "B2")
    net.subscriber("late", "B3", "a > 5")
    net.subscriber("else", "B3", "a < 0")
    assert gaps(net, "late") == [("B2–B3", True, ("p",))]
    assert gaps(net, "else") == []
    net.nodes["late"].subscribe(parse("a > 6"))
    net.settle()
    assert len(gaps(net, "late")) == 1  # it knows
    restart(net, 2, 3)
    assert gaps(net, "late")[1:] == [("B2–B3", False, ("p",))]


def test_who_moves_meanwhile_has_one_gap_and_hears_its_end_elsewhere() -> None:
    net = chain(4)
    net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B3", "a > 0")
    lose(net, "B2")
    net.nodes["s"].move_to("B4", net.now)
    net.settle()
    net.advance(SECOND)
    assert net.nodes["s"].home.broker == "B4"
    assert gaps(net, "s") == [("B2–B3", True, ("p",))]
    restart(net, 2, 4)
    assert gaps(net, "s")[1:] == [("B2–B3", False, ("p",))]


def test_who_leaves_meanwhile_is_forgotten() -> None:
    net = chain(3)
    net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B3", "a > 0")
    lose(net, "B2")
    net.nodes["s"].close()
    net.settle()
    assert net.nodes["B3"].losses.open["B2–B3"].told == {}
    restart(net, 2, 3)
    assert opened(net, "B3") == []


# -- many -----------------------------------------------------------------------------------------------


def test_a_publisher_who_migrated_and_withdrew_is_lost_where_it_was() -> None:
    """What it published there was under way, and its new broker and all behind that still waited for it."""
    net = chain(4, modules=(Migration(),))
    source, id = net.publisher("p", "B1", "a > 0")
    for name, home in {"near": "B3", "far": "B4"}.items():
        net.subscriber(name, home, "a > 0")
    net.advance(3 * SECOND)
    net.hold("B1", "B2")
    publish(net, "p", id, [1])
    published_at = net.now
    net.settle()
    migrate_and_withdraw(net, source, id, "B3")
    net.crash("B1")
    net._held.clear()
    net.advance(LOST_NS)
    for name in ("near", "far"):
        assert net.delivered(name) == []
        assert gaps(net, name) == [("B1–B2", True, ("p",))]
        assert net.effects(name, Gap)[0].since_ns <= published_at
    assert [len(net.nodes[f"B{n}"].tables.srt) for n in (2, 3, 4)] == [0, 0, 0]


def test_more_publishers_than_a_message_holds_are_told_in_several() -> None:
    net = chain(3)
    many = net.session("many", "B1")
    for n in range(LOSS_IDS_MAX + 10):
        many.advertise(f"p{n}", parse(f"n = {n}"))
    net.settle()
    net.subscriber("first", "B3", "n = 0")
    net.subscriber("last", "B3", f"n = {LOSS_IDS_MAX + 9}")
    net.subscriber("all", "B3", "n >= 0")
    net.subscriber("beyond", "B2", "n >= 0")
    net.hold("B1", "B2")
    net.crash("B1")
    net._held.clear()
    net.advance(LOST_NS)
    assert gaps(net, "first") == [("B1–B2", True, ("p0",))]
    assert gaps(net, "last") == [("B1–B2", True, (f"p{LOSS_IDS_MAX + 9}",))]
    assert gaps(net, "all")[0] == ("B1–B2", True, ())  # more names than are told
    assert LOSS_NAMES_MAX < LOSS_IDS_MAX
    assert [len(loss.advertisements) for loss in net.of_kind("B2", "B3", Loss)] == [1024, 10]


# -- a queue overflows ----------------------------------------------------------------------------------


def overflow(net: StepNetwork, values: list[int]) -> list[int]:
    """Publish one a second while B2 hears nothing from B1; then let it hear; when each was published."""
    net.hold("B1", "B2")
    id = next(iter(net.nodes["p"].publishers))
    times = []
    for value in values:
        net.now += SECOND // 100
        times.append(net.now)
        publish(net, "p", id, [value])
        net.settle()
    net.release("B1", "B2")
    net.settle()
    return times


def test_what_a_full_queue_drops_is_told_exactly_downstream_and_to_the_publisher() -> None:
    size = len(make_publication(1, 1, {"a": 1}, publisher="p").raw)
    net = chain(3, link=LinkConfig(window_bytes=1, queue_bytes_max=10 * size))
    net.publisher("p", "B1", "a > 0")
    for name, home in {"near": "B2", "far": "B3", "else": "B3"}.items():
        net.subscriber(name, home, "a > 0" if name != "else" else "a < 0")
    net.advance(3 * SECOND)
    times = overflow(net, list(range(1, 41)))
    net.advance(SECOND)
    dropped = net.nodes["B1"].meter.dropped
    assert dropped > 10
    for name in ("near", "far"):
        delivered = net.delivered(name)
        missing = [n for n in range(1, 41) if n not in delivered]
        assert len(missing) == dropped
        found = net.effects(name, Gap)
        assert sum(gap.count for gap in found) == dropped
        assert {(gap.link, gap.publishers, gap.reason) for gap in found} == {
            ("B1–B2", ("p",), QUEUE_FULL)
        }
        assert min(gap.since_ns for gap in found) == times[missing[0] - 1]
        assert max(gap.until_ns for gap in found) == times[missing[-1] - 1]
        kinds = [type(one) for one in net.told[name] if isinstance(one, Gap | Deliver)]
        # In order with data: before what came after what was dropped.
        assert kinds.index(Gap) == missing[0] - 1
    of_p = net.effects("p", Gap)
    assert [gap.is_ours for gap in of_p] == [True] * len(of_p)
    assert sum(gap.count for gap in of_p) == dropped
    assert gaps(net, "else") == []
    assert opened(net, "B1") == opened(net, "B2") == []


def test_drops_are_told_of_a_publisher_who_migrated_and_withdrew() -> None:
    size = len(make_publication(1, 1, {"a": 1}, publisher="p").raw)
    link = LinkConfig(window_bytes=1, queue_bytes_max=10 * size)
    net = chain(4, link=link, modules=(Migration(),))
    source, id = net.publisher("p", "B1", "a > 0")
    for name, home in {"near": "B3", "far": "B4"}.items():
        net.subscriber(name, home, "a > 0")
    net.hold("B1", "B2")
    publish(net, "p", id, range(1, 41))
    net.settle()
    migrate_and_withdraw(net, source, id, "B3")
    net.release("B1", "B2")
    net.settle()
    dropped = net.nodes["B1"].meter.dropped
    assert dropped > 10
    for name in ("near", "far"):
        assert len(net.delivered(name)) == 40 - dropped
        assert sum(gap.count for gap in net.effects(name, Gap)) == dropped


def test_publishers_are_told_of_drops_with_the_tick_and_once() -> None:
    size = len(make_publication(1, 1, {"a": 1}, publisher="p").raw)
    net = chain(2, link=LinkConfig(window_bytes=1, queue_bytes_max=5 * size))
    net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B2", "a > 0")
    overflow(net, list(range(1, 21)))
    overflow(net, list(range(1, 21)))
    assert gaps(net, "p") == []
    net.advance(SECOND)
    assert [gap.count for gap in net.effects("p", Gap)] == [net.nodes["B1"].meter.dropped]


def test_drops_of_many_publishers_are_counted_for_each() -> None:
    drops, more = Drops(), Drops()
    for n in range(LOSS_IDS_MAX + 5):
        drops.add(make_publication(n + 1, 1, {"a": 1}, time_ns=100 + n).raw)
    for time_ns in (50, 60):
        more.add(make_publication(1, 2, {"a": 1}, time_ns=time_ns).raw)
    drops.merge(more)
    assert (drops.count, drops.since_ns, drops.until_ns) == (LOSS_IDS_MAX + 7, 50, 100 + 1028)
    (first, ids), (last, others) = drops.parts()
    assert (first, len(ids), last, len(others)) == (LOSS_IDS_MAX + 2, LOSS_IDS_MAX, 5, 5)
    empty = Drops()
    empty.merge(more)
    assert (empty.count, empty.since_ns, empty.until_ns, empty.counts) == (2, 50, 60, {1: 2})
