"""A BIR is answered within its bound, over any tree, whatever is lost before or meanwhile; who is missing is named."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from runnel.modules.profiles.config import ProfilesConfig
from runnel.quantities import MILLISECOND, SECOND
from support.effort import share
from support.profiled import ProfilesWorld

TIMEOUT_S = 4.0
# To connect, and for the last word to come back: a millisecond per link.
SLACK_NS = 200 * MILLISECOND


def tree(random: Random) -> dict[str, str | None]:
    """Brokers, each with the one that it hangs on: bushy ones and long ones."""
    reach = random.choice([1, 3, 100])
    found: dict[str, str | None] = {"B0": None}
    for n in range(1, random.randint(2, 24)):
        found[f"B{n}"] = f"B{random.randrange(max(0, n - reach), n)}"
    return found


def path(parents: dict[str, str | None], start: str, end: str) -> list[str]:
    """The brokers from one to another."""

    def up(name: str | None) -> list[str]:
        return [] if name is None else [name, *up(parents[name])]

    one, other = up(start), up(end)
    shared = next(name for name in one if name in other)
    return [*one[: one.index(shared)], *reversed(other[: other.index(shared) + 1])]


def lose(world: ProfilesWorld, random: Random, parents: dict[str, str | None], but: str) -> None:
    """A link is cut for good, or a broker dies; not the one that is asked."""
    child = random.choice([name for name in parents if parents[name] is not None])
    if random.random() < 0.7:
        world.cut(child, str(parents[child]))
    elif child != but and world.world.hosts[child].machine is not None:
        world.world.crash(world.world.hosts[child])


@pytest.mark.parametrize("seed", range(share(40)))
def test_everybody_answers_or_somebody_on_the_way_is_missing(seed: int) -> None:
    random = Random(seed)
    parents = tree(random)
    links = [(name, parent) for name, parent in parents.items() if parent is not None]
    world = ProfilesWorld(links, ProfilesConfig(enabled=random.random() < 0.8), seed)
    asked = random.choice(list(parents))
    for _ in range(random.choice([0, 1, 2])):
        lose(world, random, parents, asked)
    world.run(random.choice([0.0, 1.0, 30.0]))  # the loss is unnoticed, noticed, or long known
    began = world.world.now
    asking = world.begin_to_ask(asked, TIMEOUT_S)
    reached = [broker for broker in parents if is_whole(world, path(parents, asked, broker))]
    meanwhile = random.choice([0, 0, 1])
    for _ in range(meanwhile):
        world.run(random.choice([0.001, 0.004, 0.01]))
        lose(world, random, parents, asked)
    world.run(TIMEOUT_S + 2)
    assert asking.over_at is not None
    assert asking.over_at <= began + round(TIMEOUT_S * SECOND) + SLACK_NS
    answers = asking.answers
    for broker in parents:
        way = path(parents, asked, broker)
        assert broker in answers.brokers or any(name in answers.missing for name in way), broker
    if not meanwhile:
        assert sorted(answers.brokers) == sorted(reached)
        assert not any(name in answers.missing for name in reached), (
            "each waits longer than the next"
        )
    assert all(cbc._requests == {} for name, cbc in world.cbcs.items() if runs(world, name))


def runs(world: ProfilesWorld, name: str) -> bool:
    return world.world.hosts[name].machine is not None


def is_whole(world: ProfilesWorld, way: list[str]) -> bool:
    """Whether no broker and no link of a way is lost."""
    cut = any(world.world.network.wire(*pair).cut for pair in pairwise(way))
    return not cut and all(runs(world, name) for name in way)


@pytest.mark.parametrize("seed", range(5))
def test_where_nothing_is_lost_all_answer_and_it_takes_no_longer_than_the_way(seed: int) -> None:
    random = Random(seed)
    parents = tree(random)
    links = [(name, parent) for name, parent in parents.items() if parent is not None]
    world = ProfilesWorld(links, seed=seed)
    began = world.world.now
    asking = world.ask("B0", TIMEOUT_S)
    assert set(asking.answers.brokers) == set(parents)
    assert asking.answers.missing == {}
    assert asking.over_at is not None and asking.over_at - began < SLACK_NS
