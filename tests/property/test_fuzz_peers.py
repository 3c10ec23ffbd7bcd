"""Whatever peers of every kind say, in whatever order, costs nobody else a connection or an event.

Two brokers with every module, and traffic from a client of one to a client of the other. Beside it strangers come and
go: clients, operators, and a broker that the configuration names. Each says what the registry says it may, at the edges
of all bounds, and much that it may not: spoilt, cut off, before its Hello, in floods. What brokers say is decoded all
the time, so one that hands on what it should not have taken is found here, too.

`make fuzz FRAMES=1000000` runs many more frames than the tests do, half of them here; the other half are for real
brokers, in tests/process/test_fuzz_sockets.py.
"""

from __future__ import annotations

import gc
import sys

import pytest

from runnel.broker.kinds import KINDS
from runnel.wire import Publication
from support.effort import fuzz_frames, share
from support.fuzzed_network import FuzzedNetwork
from support.fuzzing import FuzzedKind, sayable

FRAMES = 2_000
"""For each seed, and for open brokers as for guarded ones: so many of strangers' frames they are to take."""

SEEDS = 4
BLOCKS_GROWTH_MAX = 5_000
"""Objects that may be there after the last half of the frames and were not before: caches that have a limit."""


@pytest.mark.parametrize("is_guarded", [False, True], ids=["open", "guarded"])
@pytest.mark.parametrize("seed", range(share(SEEDS)))
def test_nobody_but_the_stranger_pays_for_what_it_says(seed: int, is_guarded: bool) -> None:
    frames = fuzz_frames(FRAMES, 0.5 / SEEDS / 2) // 2
    fuzzed = FuzzedNetwork(seed, is_guarded=is_guarded)
    fuzzed.run(frames)
    fuzzed.check()
    gc.collect()
    blocks = sys.getallocatedblocks()
    fuzzed.run(frames)
    fuzzed.check()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < BLOCKS_GROWTH_MAX
    assert fuzzed.taken.total() >= 2 * frames > fuzzed.said / 2  # most are read
    assert fuzzed.refused > frames / 50
    assert not [
        (kind, what.__name__) for kind, what in everything() if not fuzzed.taken[kind, what]
    ]


def everything() -> list[tuple[str, FuzzedKind]]:
    """All that peers of each kind may say."""
    said: list[tuple[str, FuzzedKind]] = [
        (kind, message) for kind in KINDS for message in sayable(kind)
    ]
    return [*said, ("client", Publication), ("broker", Publication)]
