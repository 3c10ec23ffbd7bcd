"""CROC: green §III. A client that asks one broker for the profiles of all brokers, and makes a plan.

    gather           sends one BIR to one broker and collects the answers of all
    plan_answers     makes a plan document from the answers, or raises an error that says what to do
    remaining_wait   how long it takes until profiles are long enough

Nothing is changed: a plan is a document.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace

from runnel.errors import InputError, NetworkError, PeerError
from runnel.modules.profiles.messages import Bia, BiaEnd, Bir
from runnel.net.addresses import Address
from runnel.operate.ask import TIMEOUT_S, Asker, AskError
from runnel.operate.picture import Answers, make_picture
from runnel.planning.documents.completion import complete_plan, translate_constraints
from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.evidence import COVERED, SAMPLE
from runnel.planning.documents.plan import Plan
from runnel.planning.network import Network
from runnel.planning.planner import PlanOptions, make_plan
from runnel.quantities import SECOND

GRACE_S = 2.0
"""How much longer CROC waits than the first broker does, so that its answer can arrive."""

NAMED_MAX = 10


def gather(address: Address, timeout_s: float = TIMEOUT_S) -> Answers:
    """Ask the network of one broker; those that do not answer in time are named in `missing`."""
    with Asker(address, timeout_s) as asker:
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


def plan_answers(
    answers: Answers,
    options: PlanOptions | None = None,
    constraints: Constraints | None = None,
    sample: int = SAMPLE,
) -> Plan:
    """Plan the network that answered; `sample`: how many publications a profile must be made from."""
    options, constraints = options or PlanOptions(), constraints or Constraints()
    _check_complete(answers, constraints.excluded)
    _check_profiles(answers)
    picture = make_picture(answers, constraints.pinned)
    _check_window(picture.network, sample)
    there = tuple(name for name in constraints.excluded if name not in answers.missing)
    constraints = replace(translate_constraints(constraints, picture), excluded=there)
    plan = make_plan(picture.network, options, constraints)
    addresses = {name: told.address for name, told in answers.brokers.items()}
    return complete_plan(plan, picture, addresses)


# -- what may be missing ------------------------------------------------------------------------------


def _check_complete(answers: Answers, excluded: Iterable[str]) -> None:
    """Check that all brokers have answered, except those that the plan excludes."""
    missing = [name for name in answers.missing if name not in excluded]
    if missing:
        one = len(missing) == 1
        without = " ".join(f"--exclude {name}" for name in missing[:NAMED_MAX])
        raise NetworkError(
            f"{_join_names(missing)} {'does' if one else 'do'} not answer, and what is behind "
            f"{'it' if one else 'them'} is unknown: see runnel status, or plan without ({without})"
        )


def _check_profiles(answers: Answers) -> None:
    off = sorted(name for name, told in answers.brokers.items() if not told.profiles)
    if off:
        who = (
            "no broker keeps" if len(off) == len(answers.brokers) else f"{_join_names(off)} keep no"
        )
        raise InputError(
            f"{who} profiles: set enabled = true under [profiles] in the configuration of every broker, "
            "start them again, and let clients do their work for a while"
        )
    if not answers.subscriptions:
        raise InputError("there is nothing to plan: nobody has subscribed to anything")


@dataclass(frozen=True, slots=True)
class Wait:
    """How much longer profiles have to be kept, and the publisher that needs it."""

    seconds: float
    publisher: str
    have: int


def remaining_wait(network: Network, sample: int) -> Wait | None:
    """How long it takes until profiles are long enough; None if they are.

    Publishers are weighted by the bytes that they send; one that no subscription matches does not count.
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
    wait = remaining_wait(network, sample)
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


def _join_names(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
