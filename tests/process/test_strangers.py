"""What strangers try on real brokers costs them their connection, and nobody else anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from process.peers import Peer, peer
from process.processes import RunningPrograms
from process.strangers import Stranger
from runnel.broker.questions import Command
from runnel.language import EVERYTHING
from runnel.modules.generations.messages import Switching
from runnel.modules.generations.questions import CloseGeneration, OpenGeneration, SetGoal
from runnel.modules.inspection.messages import Ask
from runnel.modules.placement.questions import MovePublisher
from runnel.wire import ID_MAX, Advertise, Bye, ClientHere, Hello, Listens, Stage, raw_selection

Attack = Callable[[str], None]


def switch_everybody(kind: str, name: str) -> Attack:
    """One frame: every client is to go to a generation that is not there, with a version that it cannot read."""

    def attack(url: str) -> None:
        with Stranger(url, kind, name) as stranger:
            stranger.say(Switching(2, ID_MAX, Stage.NEW, "runnel://127.0.0.1:1"))
            stranger.say(Switching(2, 5, Stage.NEW, "runnel://127.0.0.1:1"))
            stranger.hear_all()

    return attack


def command(order: Command) -> Attack:
    """A client that gives orders."""

    def attack(url: str) -> None:
        with Stranger(url, "client", "mallory") as stranger:
            stranger.say(Ask(1, order.asked_as, msgspec.Raw(msgspec.msgpack.encode(order))))
            stranger.hear_all()

    return attack


def join_as(kind: str, name: str) -> Attack:
    """Somebody who says that he is a broker, or has a broker's or a client's name."""

    def attack(url: str) -> None:
        with Stranger(url, kind, name) as stranger:
            stranger.say(Advertise(5, raw_selection(EVERYTHING), "mallory", 9))
            assert not any(isinstance(frame, Hello) for frame in stranger.hear_all())

    return attack


def take_the_place_of(name: str, address: str = "") -> Attack:
    """Somebody who has a configured broker's name, and perhaps its address, and waits while that broker lives."""

    def attack(url: str) -> None:
        with Stranger(url, "broker", name) as stranger:
            if address:
                stranger.say(Listens(address))
            (bye,) = stranger.hear_all()
            assert isinstance(bye, Bye) and f"the name {name} is taken" in bye.reason

    return attack


def tell_of_a_client(kind: str, name: str) -> Attack:
    """A message by which brokers let a client give way to another one of its name."""

    def attack(url: str) -> None:
        with Stranger(url, kind, name) as stranger:
            stranger.say(ClientHere("bob", ID_MAX, "B9", 9))
            stranger.hear_all()

    return attack


ATTACKS: dict[str, Attack] = {
    "a client switches everybody": switch_everybody("client", "mallory"),
    "a broker that nobody knows switches everybody": switch_everybody("broker", "B9"),
    "an operator switches everybody": switch_everybody("operator", "root"),
    "a client sets a goal": command(SetGoal(2, 1, Stage.NEW, "runnel://127.0.0.1:1")),
    "a client opens a generation": command(OpenGeneration(2)),
    "a client closes a generation": command(CloseGeneration(1)),
    "a client moves a publisher": command(MovePublisher(1, "B2", "runnel://127.0.0.1:1")),
    "a broker joins": join_as("broker", "B9"),
    "a broker takes a neighbour's name": join_as("broker", "B2"),
    "a broker takes a neighbour's place": take_the_place_of("B2"),
    "a client says that another has a name": tell_of_a_client("client", "mallory"),
    "a broker that nobody knows says so": tell_of_a_client("broker", "B9"),
    "a broker takes a client's name": join_as("broker", "bob"),
    "a client takes a broker's name": join_as("client", "B2"),
    "an operator takes a client's name": join_as("operator", "bob"),
}


def test_attacks_cost_nobody_anything(processes: RunningPrograms) -> None:
    b1 = processes.broker("B1", accept=["B2"])  # nobody else is to join
    b2 = processes.broker("B2", {"B1": b1.said}, accept=[])

    async def main() -> None:
        async with peer("alice", b2.said) as alice, peer("bob", b1.said) as bob:
            id = await alice.advertise("n >= 0")
            await bob.subscribe("n >= 0")
            attacks = ATTACKS | {"a broker takes its address too": take_the_place_of("B2", b2.said)}
            for done, (name, attack) in enumerate(attacks.items(), 1):
                await asyncio.to_thread(attack, b1.said)
                await publish(alice, id, 50 * done - 50, 50 * done)
                await bob.until(lambda: len(bob.got) >= 50 * done)  # noqa: B023
                assert [n for _, n in bob.got] == list(range(50 * done)), name
                for one in (alice, bob):
                    assert (one.homes_down, one.homes_up) == (0, [True]), name

    asyncio.run(main())
    assert "link-lost peer=B" not in b1.log()
    assert [b2.stop(), b1.stop()] == [0, 0]


def test_a_broker_that_is_not_configured_is_refused_and_the_log_says_what_to_do(
    processes: RunningPrograms,
) -> None:
    b1 = processes.broker("B1", accept=["B2"])
    processes.broker("B9", {"B1": b1.said}, linked=False)
    b1.wait_log("broker B9 is no neighbour of B1: if it is to be one, add it to `accept`")
    processes.broker("B2", {"B1": b1.said})


async def publish(one: Peer, id: int, first: int, end: int) -> None:
    for n in range(first, end):
        await one.publish(id, n=n)
    await one.settle()
