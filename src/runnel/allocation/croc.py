"""CROC: green §III. An ordinary client that asks one broker about all of them, and plans.

    gather         one BIR to one broker; the answers of all
    plan_of        from the answers to a plan document, or an error that says what to do
    how_long       whether profiles say enough yet; if not, how long that takes

Nothing is changed: a plan is a document.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace

from runnel.allocation.completion import completed, translated
from runnel.allocation.constraints import Constraints
from runnel.allocation.evidence import COVERED, SAMPLE
from runnel.allocation.messages import Bia, BiaEnd, Bir
from runnel.allocation.network import Network
from runnel.allocation.picture import SECOND, Answers, picture_of
from runnel.allocation.plan import Plan
from runnel.allocation.planner import PlanOptions, make_plan
from runnel.errors import InputError, NetworkError, PeerError
from runnel.inspection.ask import TIMEOUT_S, Asker, AskError

GRACE_S = 2.0
"""How much longer CROC waits than it told the first broker to: for the answer to come in."""

NAMED_MAX = 10


def gather(host: str, port: int, timeout_s: float = TIMEOUT_S) -> Answers:
    """Ask the network of one broker; those that do not answer in time are named in `missing`."""
    with Asker(host, port, timeout_s) as asker:
        answers = Answers()
        bir = Bir(secrets.randbits(62), round(timeout_s * SECOND))
        for message in asker.exchange(bir, timeout_s + GRACE_S):
            if not isinstance(message, (Bia, BiaEnd)) or message.token != bir.token:
                continue
            try:
                if answers.take(message):
                    break
            except PeerError as error:
                raise AskError(f"{asker.address}: {error}") from None
        return answers


def plan_of(
    answers: Answers,
    options: PlanOptions | None = None,
    constraints: Constraints | None = None,
    sample: int = SAMPLE,
) -> Plan:
    """Plan the network that answered; `sample`: how many publications a profile must be made from."""
    options, constraints = options or PlanOptions(), constraints or Constraints()
    _check_complete(answers, constraints.excluded)
    _check_profiles(answers)
    picture = picture_of(answers, constraints.pinned)
    _check_window(picture.network, sample)
    there = tuple(name for name in constraints.excluded if name not in answers.missing)
    constraints = replace(translated(constraints, picture), excluded=there)
    plan = make_plan(picture.network, options, constraints)
    addresses = {name: told.address for name, told in answers.brokers.items()}
    return completed(plan, picture, addresses)


# -- what may be missing ------------------------------------------------------------------------------


def _check_complete(answers: Answers, excluded: Iterable[str]) -> None:
    """All have answered, but for brokers that are to be planned without."""
    missing = [name for name in answers.missing if name not in excluded]
    if missing:
        one = len(missing) == 1
        without = " ".join(f"--exclude {name}" for name in missing[:NAMED_MAX])
        raise NetworkError(
            f"{_listed(missing)} {'does' if one else 'do'} not answer, and what is behind "
            f"{'it' if one else 'them'} is unknown: see runnel status, or plan without ({without})"
        )


def _check_profiles(answers: Answers) -> None:
    off = sorted(name for name, told in answers.brokers.items() if not told.profiles)
    if off:
        who = "no broker keeps" if len(off) == len(answers.brokers) else f"{_listed(off)} keep no"
        raise InputError(
            f"{who} profiles: set enabled = true under [profiles] in the configuration of every broker, "
            "start them again, and let clients do their work for a while"
        )
    if not answers.subscriptions:
        raise InputError("there is nothing to plan: nobody has subscribed to anything")


@dataclass(frozen=True, slots=True)
class Wait:
    """How much longer profiles have to be kept, because of whom."""

    seconds: float
    publisher: str
    have: int


def how_long(network: Network, sample: int) -> Wait | None:
    """How long it takes until enough is known; None if it is.

    A publisher counts by the bytes that it sends; one that nobody wants does not count.
    """
    wanted = {number for profile in network.profiles for number in profile}
    waits = sorted(
        (max(0, sample - network.spans[n]) / one.rate, one.name, network.spans[n], one.bandwidth)
        for n, one in enumerate(network.publishers)
        if n in wanted and one.rate
    )
    enough = COVERED * sum(bandwidth for *_, bandwidth in waits)
    covered = 0.0
    for seconds, name, have, bandwidth in waits:
        covered += bandwidth
        if covered >= enough:
            return Wait(seconds, name, have) if seconds else None
    return Wait(0.0, "", 0)


def _check_window(network: Network, sample: int) -> None:
    wait = how_long(network, sample)
    if wait is None:
        return
    if not wait.publisher:
        raise InputError(
            "nothing was delivered lately, so there is nothing to plan from: wait for publications"
        )
    raise InputError(
        f"profiles are too short: of {wait.publisher} {wait.have} publications were followed, and {sample} "
        f"are wanted. Ask again in {wait.seconds:,.0f} s, or plan from what there is (--sample {wait.have})"
    )


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
