"""What users try at a guarded broker beyond their permit: others' names and publishers, sessions, rates, commands."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from runnel.broker.access import BY_ID, BY_NAME, BY_QUOTA, UNKNOWN
from runnel.broker.broker import REVOKED
from runnel.broker.events import AccessChanged, Connected, Disconnected, StopAsked
from runnel.broker.module import Module
from runnel.broker.permits import Permit, Quota, Role
from runnel.broker.questions import Answers, Command
from runnel.language import EVERYTHING
from runnel.modules.inspection.messages import Answer, Ask
from runnel.modules.inspection.module import Inspection
from runnel.modules.inspection.questions import Status
from runnel.modules.placement.migration import Migration
from runnel.quantities import SECOND
from runnel.wire import (
    PROTOCOL,
    Ack,
    Advertise,
    Barrier,
    Denied,
    Handover,
    Hello,
    Mcm,
    Mum,
    Publication,
    Refused,
    RefusedPublications,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    make_publication,
)
from support.door import ALL, Door


def may_all(user: str, *roles: Role, quota: Quota | None = None, name: str = "") -> Permit:
    return Permit(user, EVERYTHING, EVERYTHING, (name or user,), frozenset(roles), quota or Quota())


def guarded(*users: str, **options: Any) -> Door:
    """A guarded broker; each user is there on a connection of its own, 1 and so on."""
    door = Door(is_guarded=True, **options)
    for conn, user in enumerate(users, 1):
        door.connect(conn, user, permit=may_all(user))
    return door


def published(id: int, counter: int, name: str, **attributes: int) -> Publication:
    return make_publication(id, counter, attributes, publisher=name)


def refusals(door: Door, conn: int) -> list[tuple[int, tuple[int, ...]]]:
    return [
        (one.advertisement, one.counters)
        for one in door.received(conn)
        if isinstance(one, RefusedPublications)
    ]


@pytest.mark.parametrize("kind", ["client", "operator"])
def test_nobody_is_let_in_without_a_permit_and_all_are_told_the_same(kind: str) -> None:
    door = Door(is_guarded=True)
    door.connect(1, "somebody", kind)
    assert door.received(1) == [Denied(UNKNOWN)]
    assert door.closed == {1: UNKNOWN}
    assert not door.broker.links


def test_a_broker_that_is_not_guarded_asks_nobody() -> None:
    door = Door()
    door.connect(1, "somebody")
    assert door.broker.links["somebody"].standing is None
    door.connect(2, "alice", permit=Permit("alice"))  # but a permit counts
    assert door.received(2) == [
        Denied("alice may not be called 'alice' here; names it may have: none")
    ]


def test_neighbours_need_no_permit_but_their_names_are_configured() -> None:
    door = Door(is_guarded=True, accepts=("N",), accepts_any=False)
    door.connect(1, "N", "broker")
    assert door.broker.links["N"].established
    door.connect(2, "M", "broker")
    assert "M" not in door.broker.links and 2 in door.closed


def test_nobody_takes_the_name_of_another_user() -> None:
    door = guarded("alice")
    door.connect(2, "alice", permit=may_all("mallory"))
    (answer,) = door.received(2)
    assert isinstance(answer, Denied) and "mallory may not be called 'alice'" in answer.reason
    assert 1 not in door.closed and door.broker.links["alice"].conn == 1


def test_nobody_goes_on_with_the_session_of_another_user() -> None:
    """Not even if both may have the name, and the one knows the tokens of the other."""
    door = Door(is_guarded=True)
    door.connect(1, "shared", permit=may_all("alice", name="shared"))
    link = door.broker.links["shared"]
    door.arrive(1, Subscribe(20, ALL, 9))
    assert 20 in door.broker.tables.prt
    resume = Hello(PROTOCOL, "client", "shared", link.peer_token, link.token, 0, 0, 0)
    for user, keeps in ("alice", True), ("mallory", False):
        conn = 2 if keeps else 3
        door.event(Connected(conn, None, may_all(user, name="shared")))
        door.arrive(conn, resume)
        assert (20 in door.broker.tables.prt) is keeps, user


def test_publications_go_out_only_under_an_advertisement_of_the_same_link() -> None:
    door = guarded("alice", "mallory", "sub")
    door.arrive(1, Advertise(7, ALL, "alice", 9))
    door.arrive(2, Advertise(8, ALL, "mallory", 9))
    door.arrive(3, Subscribe(20, ALL, 9))
    door.received(3)
    door.arrive(2, published(7, 1, "alice"), published(9, 1, "mallory"), published(8, 1, "alice"))
    assert refusals(door, 2) == [(7, (1,)), (9, (1,)), (8, (1,))]
    assert door.broker.meter.refused == {BY_ID: 2, BY_NAME: 1}
    assert door.received(3) == []
    door.arrive(1, published(7, 1, "alice"))
    assert len(door.received(3)) == 1
    door.arrive(1, Unadvertise(7), published(7, 2, "alice"))
    assert refusals(door, 1) == [(7, (2,))]


def test_what_is_refused_counts_as_taken_in() -> None:
    """Or the publisher would send it again when it comes back, and wait for ever."""
    door = guarded("alice")
    door.arrive(1, published(7, 1, "alice"), published(7, 2, "alice"))
    assert [one for one in door.got[1] if isinstance(one, Ack)][-1].data == 2


def test_nobody_takes_the_publisher_of_another_user() -> None:
    door = guarded("alice", "mallory", modules=(Migration(),))
    door.arrive(1, Advertise(7, ALL, "alice", 9))
    for name in ("alice", "mallory"):
        door.received(2)
        door.arrive(2, Mum(7, ALL, name, 9, 1))
        assert door.received(2) == [Mcm(7, 1, broken=True)]
        assert door.broker.tables.srt[7].link.name == "alice"
    door.arrive(2, Unadvertise(7))
    assert 7 in door.broker.tables.srt


def test_nobody_publishes_under_the_advertisement_of_another_user() -> None:
    """It could use up the counters, so that whatever the other publishes is taken for a double."""
    door = guarded("alice", "mallory", "sub", modules=(Migration(),))
    door.arrive(1, Advertise(7, ALL, "alice", 9))
    door.arrive(3, Subscribe(20, ALL, 9))
    door.received(3)
    door.arrive(2, Advertise(7, ALL, "mallory", 9, 1))  # as if it had migrated
    door.arrive(2, published(7, 2**62, "mallory"))
    door.arrive(2, Mum(8, ALL, "mallory", 9, 1), published(8, 1, "mallory"))
    assert door.received(3) == []
    assert refusals(door, 2) == [(7, (2**62,)), (8, (1,))]
    standing = door.broker.links["mallory"].standing
    assert standing is not None and not standing.publishers


def test_an_id_that_somebody_has_taken_before_costs_nothing_but_that_id() -> None:
    door = guarded("alice", "mallory")
    door.arrive(2, Advertise(7, ALL, "mallory", 9), Subscribe(20, ALL, 9))
    door.received(1)
    door.arrive(
        1, Advertise(7, ALL, "alice", 9), Subscribe(20, ALL, 9), Advertise(8, ALL, "alice", 9)
    )
    told = [one for one in door.received(1) if isinstance(one, Refused)]
    assert [one.id for one in told] == [7, 20]
    assert 1 not in door.closed
    tables = door.broker.tables
    assert [tables.srt[id].publisher for id in (7, 8)] == ["mallory", "alice"]
    assert tables.prt[20].link.name == "mallory"


def test_an_operator_takes_no_clients_name() -> None:
    door = Door(is_guarded=True)
    door.connect(1, "alice", "operator", permit=may_all("mallory", "read"))
    door.connect(2, "alice", permit=may_all("alice"))
    assert 1 in door.closed and door.broker.links["alice"].is_client
    door.connect(3, "alice", "operator", permit=may_all("mallory", "read"))
    assert 3 in door.closed and 2 not in door.closed


def test_nobody_hands_over_another_client() -> None:
    door = guarded("alice", "mallory")
    run = door.broker.links["alice"].token
    door.arrive(2, Handover(5, "B", "alice", run, 0))
    assert 2 in door.closed and 1 not in door.closed


def test_nobody_withdraws_what_is_anothers() -> None:
    door = guarded("alice", "mallory")
    door.arrive(1, Subscribe(20, ALL, 9))
    door.arrive(2, Unsubscribe(20))
    assert 20 in door.broker.tables.prt and 2 in door.closed


def test_a_refused_subscription_is_answered_in_order_and_nothing_else_is_disturbed() -> None:
    door = Door(is_guarded=True)
    door.connect(1, "alice", permit=Permit("alice", names=("alice",)))
    door.received(1)
    door.arrive(1, Subscribe(20, ALL, 9), Barrier(5, ALL, "subscription"))
    first, fence = door.received(1)
    assert first == Refused(20, "alice may subscribe to nothing")
    assert fence.token == 5  # type: ignore[union-attr]
    assert 1 not in door.closed


# -- operators --------------------------------------------------------------------------------------------


class Push(Command, frozen=True):
    asked_as = "push"


class Pushed(Module):
    name = "pushed"

    def answers(self) -> Answers:
        return {Push: lambda context, asked, now: {"pushed": 1}}


@pytest.mark.parametrize(
    ("roles", "may_read", "may_operate"),
    [((), False, False), (("read",), True, False), (("operate",), True, True)],
)
def test_roles_say_what_operators_may(
    roles: tuple[Role, ...], may_read: bool, may_operate: bool
) -> None:
    door = Door(is_guarded=True, modules=(Inspection(), Pushed()))
    door.connect(1, "op", "operator", may_all("alice", *roles))
    if not may_read:
        assert door.received(1) == [Denied("alice is no operator here")]
        return
    assert "error" not in answer(door, Status())
    told = answer(door, Push())
    assert told == ({"pushed": 1} if may_operate else {"error": "push: alice may give no commands"})


def answer(door: Door, question: Any, conn: int = 1) -> dict[str, Any]:
    argument = msgspec.Raw(msgspec.msgpack.encode(question))
    door.arrive(conn, Ask(1, question.asked_as, argument))
    body = b"".join(one.body for one in door.received(conn) if isinstance(one, Answer))
    found: dict[str, Any] = msgspec.msgpack.decode(body)
    return found


def test_a_client_gives_no_commands_whatever_its_roles() -> None:
    door = Door(is_guarded=True, modules=(Inspection(), Migration()))
    door.connect(1, "alice", permit=may_all("alice", "operate"))
    door.arrive(1, Ask(1, "status", msgspec.Raw(msgspec.msgpack.encode({}))))
    assert 1 in door.closed


def test_an_operator_who_loses_his_role_has_to_go() -> None:
    door = Door(is_guarded=True, modules=(Inspection(),))
    door.connect(1, "op", "operator", may_all("alice", "read"))
    door.received(1)
    door.event(AccessChanged(lambda one: may_all("alice")))
    assert door.received(1) == [Denied("alice is no operator here any more")]


# -- quotas -----------------------------------------------------------------------------------------------


def test_connections_of_a_user_are_limited_and_one_that_comes_back_is_not_one_more() -> None:
    door = Door(is_guarded=True)
    permit = Permit("alice", names=("a*",), quota=Quota(connections=2))
    for conn, name in enumerate(("a1", "a2", "a3", "a2"), 1):
        door.connect(conn, name, permit=permit)
    (told,) = [one for one in door.received(3) if isinstance(one, Denied)]
    assert told.reason == "alice has 2 connections here, as many as its quota allows"
    assert set(door.broker.links) == {"a1", "a2"}
    assert door.broker.links["a2"].conn == 4


def test_operators_count_among_the_connections_of_their_user() -> None:
    door = Door(is_guarded=True, modules=(Inspection(),))
    permit = Permit("alice", names=("a*",), roles=frozenset({"read"}), quota=Quota(connections=2))
    told = "alice has 2 connections here, as many as its quota allows"
    door.connect(1, "a1", permit=permit)
    door.connect(2, "op1", "operator", permit)
    for conn, name, kind in ((3, "op2", "operator"), (4, "a2", "client")):
        door.connect(conn, name, kind, permit)
        assert door.received(conn) == [Denied(told)]
    assert set(door.broker.links) == {"a1", "op1"}
    door.event(Disconnected(2))
    door.connect(5, "op3", "operator", permit)  # at once: one that is gone does not count
    assert door.broker.links["op3"].conn == 5


def fast(per_s: float = 10, **more: float) -> Door:
    door = Door(is_guarded=True, credit_max=100)
    quota = Quota(publications_per_s=per_s, **more)  # type: ignore[arg-type]
    door.connect(1, "alice", permit=may_all("alice", quota=quota))
    door.arrive(1, Advertise(7, ALL, "alice", 9))
    door.connect(2, "sub", permit=may_all("sub"))
    door.arrive(2, Subscribe(20, ALL, 9))
    door.received(2)
    return door


def live(door: Door, seconds: float) -> None:
    """Let time pass, with signs of life from the clients."""
    for _ in range(round(seconds * 2)):
        door.acknowledge(1)
        door.acknowledge(2)
        door.pass_time(SECOND // 2)


def acknowledged(door: Door, conn: int = 1) -> int:
    """How many publications the client knows to be taken."""
    data = [one.data for one in door.got.get(conn, []) if isinstance(one, Ack)]
    return max(data, default=1) - 1  # the advertisement came first


def test_who_publishes_faster_than_its_quota_waits_and_loses_nothing() -> None:
    door = fast(10)
    assert door.credit(1) == 5
    for counter in range(1, 41):
        door.arrive(1, published(7, counter, "alice"))
    assert len(door.received(2)) == 40  # nothing is dropped
    assert acknowledged(door) == 10  # but a second's worth is all that it is told of
    live(door, 1.0)
    assert acknowledged(door) == 10
    live(door, 2.5)
    assert acknowledged(door) == 40
    assert not door.broker.meter.refused


def test_bytes_are_limited_too() -> None:
    size = len(published(7, 1, "alice").raw)
    door = fast(0, bytes_per_s=2.0 * size)
    for counter in range(1, 5):
        door.arrive(1, published(7, counter, "alice"))
    assert acknowledged(door) == 2
    live(door, 1.5)
    assert acknowledged(door) == 4


def test_who_does_not_wait_for_credit_is_refused_and_told() -> None:
    door = fast(10)
    for counter in range(1, 151):
        door.arrive(1, published(7, counter, "alice"))
    refused = door.broker.meter.refused[BY_QUOTA]
    assert 30 < refused < 50
    assert len(door.received(2)) == 150 - refused
    told = refusals(door, 1)
    assert [counters for _, counters in told][-1] == (150,)
    assert sum(len(counters) for _, counters in told) == refused


def test_going_and_coming_back_fills_no_bucket() -> None:
    door = fast(10)
    for counter in range(1, 31):
        door.arrive(1, published(7, counter, "alice"))
    door.connect(3, "alice", permit=may_all("alice", quota=Quota(publications_per_s=10)))
    door.acknowledge(3)
    door.pass_time(SECOND // 2)
    door.arrive(3, Advertise(8, ALL, "alice", 9))
    door.arrive(3, published(8, 1, "alice"))
    assert acknowledged(door, 3) < 1  # it still pays for what it did before


def test_a_broker_that_leaves_owes_nobody_an_acknowledgement() -> None:
    door = fast(1)
    for counter in range(1, 4):
        door.arrive(1, published(7, counter, "alice"))
    assert acknowledged(door) < 3
    door.event(StopAsked())
    assert acknowledged(door) == 3


# -- changes ----------------------------------------------------------------------------------------------


def test_a_user_who_is_gone_leaves_nothing_behind() -> None:
    door = guarded("alice", "bob")
    door.arrive(1, Advertise(7, ALL, "alice", 9), Subscribe(20, ALL, 9))
    door.received(1)
    door.event(AccessChanged(lambda one: None if one.user == "alice" else one))
    assert door.received(1) == [Denied(REVOKED)]
    assert "alice" not in door.broker.links and "bob" in door.broker.links
    assert not door.broker.tables.prt and not door.broker.tables.srt


def test_a_client_that_is_away_is_reviewed_as_well() -> None:
    door = guarded("alice")
    door.arrive(1, Subscribe(20, ALL, 9))
    door.event(Disconnected(1))
    assert 20 in door.broker.tables.prt
    door.event(AccessChanged(lambda one: None))
    assert not door.broker.tables.prt


def test_a_quota_that_changes_holds_at_once() -> None:
    door = guarded("alice")
    assert door.credit(1) == 1024
    slow = may_all("alice", quota=Quota(publications_per_s=4))
    door.event(AccessChanged(lambda one: slow))
    door.arrive(1, Advertise(7, ALL, "alice", 9))
    assert door.credit(1) == 2
