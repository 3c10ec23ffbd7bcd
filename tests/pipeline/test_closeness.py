"""Groups and nearest partners are those of allocation/: for a simulated network, and for profiles drawn by lot."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from runnel.allocation.bits import packed
from runnel.allocation.closeness import Metric, closeness
from runnel.allocation.exhaustive import Exhaustive
from runnel.allocation.gifs import Gif, grouped
from runnel.allocation.load import Item
from runnel.allocation.profiles import Profile
from runnel.lab.run import Run
from runnel.pipeline import closeness as under_test
from runnel.pipeline.closeness import Packed, Search, pack
from runnel.pipeline.jobs import Job
from runnel.trace.reader import open_trace
from sparked import LENGTH, Known

METRICS: tuple[Metric, ...] = ("INTERSECT", "XOR", "IOS", "IOU")


def local_groups(known: Known) -> dict[int, tuple[Gif, list[int]]]:
    """The planner's groups, by their least subscription, with all their subscriptions."""
    ids = list(known.profiles)
    items = [Item(profile, 0, (n,)) for n, profile in enumerate(known.windows.profiles)]
    found = {}
    for gif in grouped(items):
        members = sorted(ids[unit] for unit in gif.units)
        found[members[0]] = (gif, members)
    return found


def test_groups_are_those_of_the_planner(done: Job, run: Run) -> None:
    expected = local_groups(Known(open_trace(run.trace)))
    rows = done.frame("gifs").collect()
    assert len(rows) == len(expected) < 60, "some are identical"
    for row in rows:
        gif, members = expected[row["gif"]]
        assert (row["members"], row["count"], row["ones"]) == (members, len(members), gif.size)
    told = {row["subscription"]: row["gif"] for row in done.frame("members").collect()}
    assert told == {id: gif for gif, (_, members) in expected.items() for id in members}


@pytest.mark.parametrize("metric", METRICS)
def test_partners_are_those_of_the_exhaustive_search(done: Job, run: Run, metric: Metric) -> None:
    known = Known(open_trace(run.trace))
    groups = local_groups(known)
    every = Exhaustive(metric, known.windows.spans)
    in_order = [groups[id][0] for id in sorted(groups)]
    every.add_all(in_order)
    id_of = {gif.number: id for id, (gif, _) in groups.items()}
    expected = {}
    for gif in in_order:
        partner = every.closest(gif, lambda one, other: True)
        if partner is not None:
            expected[id_of[gif.number]] = (id_of[partner[1].number], partner[0])
    done.closeness(metric)
    rows = done.frame(f"closeness/metric={metric}").collect()
    assert {row["gif"]: (row["partner"], row["closeness"]) for row in rows} == expected


# -- drawn by lot -----------------------------------------------------------------------------------------


def drawn(seed: int, count: int = 300) -> list[Profile]:
    """Distinct profiles: mostly of one publisher, of all sizes, many that cover each other."""
    random = Random(seed)
    found: dict[tuple[tuple[int, int], ...], Profile] = {}
    while len(found) < count:
        profile: Profile = {}
        for publisher in random.sample(range(4), random.choice((1, 1, 1, 2, 4))):
            first, last = sorted(random.sample(range(LENGTH + 1), 2))
            bits = (1 << last) - (1 << first)
            if random.random() < 0.5:
                bits &= random.getrandbits(LENGTH)
            if bits:
                profile[publisher] = bits
        if profile:
            found[tuple(sorted(profile.items()))] = profile
    return list(found.values())


def packed_from(profiles: list[Profile]) -> Packed:
    rows = [(n, p, bits) for n, profile in enumerate(profiles) for p, bits in profile.items()]
    ids, publishers = np.array([(n, p) for n, p, _ in rows], dtype=np.int64).T
    return pack(ids, publishers, packed([bits for _, _, bits in rows], LENGTH))


@pytest.mark.parametrize("near", [2, 32, 512])
@pytest.mark.parametrize("metric", METRICS)
def test_every_partner_is_the_closest(
    metric: Metric, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "NEAR", near)
    for seed in range(3):
        profiles = drawn(seed)
        every = Exhaustive(metric, [LENGTH] * 4)
        gifs = [Gif(number, profile) for number, profile in enumerate(profiles)]
        every.add_all(gifs)
        search = Search(packed_from(profiles), metric)
        for gif in gifs:
            partner = every.closest(gif, lambda one, other: True)
            expected = None if partner is None else (partner[0], partner[1].number)
            assert search.nearest(gif.number) == expected, (seed, gif.number)


@pytest.mark.parametrize("metric", METRICS)
def test_who_is_not_close_enough_is_no_partner(metric: Metric) -> None:
    everything = packed_from(drawn(1))
    found = [Search(everything, metric).nearest(number) for number in range(300)]
    middle = sorted(one[0] for one in found if one)[len(found) // 2]
    for number, one in enumerate(found):
        expected = one if one is not None and one[0] >= middle else None
        assert Search(everything, metric, middle).nearest(number) == expected


def test_sizes_save_work_where_there_are_close_partners() -> None:
    """Every vector has a twin that lacks one bit: whatever differs much in size is never looked at."""
    random = Random(1)
    profiles: list[Profile] = []
    for _ in range(1_500):
        bits = random.getrandbits(LENGTH) >> random.randrange(LENGTH // 2)
        bits |= 0b111 << random.randrange(LENGTH - 3)
        profiles += [{0: bits}, {0: bits & (bits - 1)}]
    search = Search(packed_from(profiles), "IOU")
    for number in range(0, 3_000, 2):
        found = search.nearest(number)
        assert found is not None
        assert found[1] == number + 1 or found[0] >= closeness(
            "IOU", *profiles[number : number + 2]
        )
    assert 0 < search.computed < 1_500 * 3_000 / 3


@pytest.mark.parametrize("metric", METRICS)
def test_one_alone_has_no_partner(metric: Metric) -> None:
    assert Search(packed_from([{0: 1}]), metric).nearest(0) is None
