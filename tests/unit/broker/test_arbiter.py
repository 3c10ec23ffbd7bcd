"""The arbiter: one owner at a time, higher priority takes over, what was moved rests."""

import itertools

import pytest

from runnel.broker.arbiter import PRIORITY, Arbiter, ClaimRefused, Granted

LEASE, REST = 100, 50


@pytest.fixture
def arbiter() -> Arbiter:
    return Arbiter(lease_ns=LEASE, rest_ns=REST)


def test_what_nobody_has_is_granted(arbiter: Arbiter) -> None:
    assert arbiter.claim("P1", "balance", 7) == Granted(107)
    assert arbiter.owner("P1", 8) == "balance"
    assert arbiter.owner("P2", 8) is None


def test_entities_do_not_touch_each_other(arbiter: Arbiter) -> None:
    arbiter.claim("P1", "balance", 0)
    assert arbiter.claim("P2", "placement", 0) == Granted(LEASE)


@pytest.mark.parametrize(("holder", "claimer"), list(itertools.permutations(PRIORITY, 2)))
def test_only_a_higher_priority_takes_over(arbiter: Arbiter, holder: str, claimer: str) -> None:
    arbiter.claim("P1", holder, 0)
    answer = arbiter.claim("P1", claimer, 1)
    if PRIORITY[claimer] > PRIORITY[holder]:
        assert answer == Granted(1 + LEASE)
        assert arbiter.owner("P1", 2) == claimer
    else:
        assert answer == ClaimRefused(LEASE)
        assert arbiter.owner("P1", 2) == holder


def test_the_owner_extends_its_lease(arbiter: Arbiter) -> None:
    arbiter.claim("P1", "placement", 0)
    assert arbiter.claim("P1", "placement", 60) == Granted(160)


def test_a_lease_ends_by_itself_and_refused_said_when(arbiter: Arbiter) -> None:
    arbiter.claim("P1", "balance", 0)
    refused = arbiter.claim("P1", "placement", 1)
    assert isinstance(refused, ClaimRefused)
    assert isinstance(arbiter.claim("P1", "placement", refused.retry_at - 1), ClaimRefused)
    assert isinstance(arbiter.claim("P1", "placement", refused.retry_at), Granted)


def test_what_was_moved_rests_even_from_its_owner(arbiter: Arbiter) -> None:
    arbiter.claim("P1", "balance", 0)
    arbiter.release("P1", "balance", 10)
    assert arbiter.owner("P1", 11) is None
    for owner in ("balance", "placement"):
        assert arbiter.claim("P1", owner, 11) == ClaimRefused(10 + REST)
    assert arbiter.claim("P1", "balance", 10 + REST) == Granted(10 + REST + LEASE)


@pytest.mark.parametrize("owner", ["plan", "operator"])
def test_a_plan_and_an_operator_wake_what_rests(arbiter: Arbiter, owner: str) -> None:
    arbiter.claim("P1", "balance", 0)
    arbiter.release("P1", "balance", 10)
    assert arbiter.claim("P1", owner, 11) == Granted(11 + LEASE)


def test_what_was_not_moved_after_all_does_not_rest(arbiter: Arbiter) -> None:
    arbiter.claim("P1", "balance", 0)
    arbiter.release("P1", "balance", 10, moved=False)
    assert arbiter.claim("P1", "placement", 11) == Granted(11 + LEASE)


def test_nobody_releases_what_is_not_his(arbiter: Arbiter) -> None:
    arbiter.release("P1", "balance", 0)
    arbiter.claim("P1", "placement", 0)
    arbiter.claim("P1", "balance", 1)
    arbiter.release("P1", "placement", 2)  # it was taken from it meanwhile
    assert arbiter.owner("P1", 3) == "balance"


def test_releasing_twice_does_not_rest_for_longer(arbiter: Arbiter) -> None:
    arbiter.claim("P1", "balance", 0)
    arbiter.release("P1", "balance", 10)
    arbiter.release("P1", "balance", 40)
    assert arbiter.claim("P1", "balance", 41) == ClaimRefused(10 + REST)


def test_what_is_over_is_forgotten_and_nothing_else(arbiter: Arbiter) -> None:
    arbiter.claim("P1", "balance", 0)
    arbiter.claim("P2", "balance", 50)
    arbiter.forget_expired(LEASE)
    assert arbiter.owner("P1", LEASE) is None
    assert arbiter.owner("P2", LEASE) == "balance"
