"""Strangers that shout at real brokers, one after the other, and count what the brokers took of it.

A broker acknowledges what it has taken from a link, so a stranger that listens knows which of its frames were read: all
up to the last that an acknowledgement covers. What it said behind that is not counted, whatever became of it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from process.strangers import Stranger
from runnel.modules.inspection.messages import Answer
from runnel.wire import REGISTRY, Ack, Credentials, Frame, Hello, Lane, Publication
from support.fuzzing import FuzzedKind, FuzzWord, StrangeVoice, sayable

CHUNK_FRAMES = 20, 60
ACK_EVERY = 16
"""A broker need not acknowledge fewer frames than these at once."""

TRIES_MAX = 30
"""So many times the frames that are wanted a shouter says at most, if brokers do not take enough of them."""


class Shouter:
    """What several strangers said, one after the other, at any of these addresses, and what was taken of it.

    `theirs` are ids that others use. `prove`: what those that are no brokers have to say behind their Hello.
    """

    def __init__(
        self,
        urls: Sequence[str],
        seed: int,
        kinds: Sequence[str],
        theirs: tuple[int, ...] = (),
        prove: Callable[[], Credentials] | None = None,
    ) -> None:
        self.taken: Counter[tuple[str, FuzzedKind]] = Counter()
        self.said = self.strangers = self.refused_commands = 0
        self.together: Sequence[Shouter] = (self,)
        self._urls = urls
        self._seed = seed
        self._kinds = kinds
        self._prove = prove
        self._voice = StrangeVoice(seed, theirs, is_guarded=prove is not None)
        self._random = random.Random(seed)

    @property
    def missing(self) -> list[tuple[str, str]]:
        """What peers of these kinds may say, and no broker has taken from one, of all that shout `together`."""
        kinds = sorted(set(self._kinds))
        wanted: list[tuple[str, FuzzedKind]] = [
            (kind, message) for kind in kinds for message in sayable(kind)
        ]
        wanted += [(kind, Publication) for kind in kinds if kind != "operator"]
        taken = {what for one in self.together for what in one.taken.copy()}
        return [(kind, what.__name__) for kind, what in wanted if (kind, what) not in taken]

    def shout(self, frames: int, stopped: Callable[[], bool]) -> None:
        """Until brokers have taken so many frames more, and everything once."""
        until, most = self.taken.total() + frames, self.said + TRIES_MAX * frames
        while not stopped() and self.said < most:
            if self.taken.total() >= until and not self.missing:
                return
            self._come()

    def _come(self) -> None:
        """One stranger, from its first word to its last."""
        chance, voice = self._random, self._voice
        self.strangers += 1
        kind, at = chance.choice(self._kinds), chance.randrange(len(self._urls))
        name = f"{kind}-{self._seed % 2}"
        if kind == "broker":
            name = "X" if chance.random() < 0.05 else f"F{at + 1}-{self._seed % 2}"
        with Stranger(self._urls[at]) as stranger:
            if chance.random() < 0.04:  # it does not say Hello first, or not at all
                stranger.say(*(voice.word(kind, name).raw for _ in range(chance.randint(1, 5))))
                stranger.finish()
                return
            stranger.say(voice.hello(kind, name))
            if self._prove is not None and kind != "broker":
                stranger.say(self._prove())
            if any(isinstance(one, Hello) for one in stranger.hear_until(_is_hello)):
                self._talk(stranger, kind, name)

    def _talk(self, stranger: Stranger, kind: str, name: str) -> None:
        """Say a chunk, and then perhaps what ends the link."""
        chance, voice = self._random, self._voice
        words = [voice.calm_word(kind) for _ in range(chance.randint(*CHUNK_FRAMES))]
        stranger.say(b"".join(word.raw for word in words))
        numbered = sum(_lane_of(word) is not Lane.CONTROL for word in words)
        heard = stranger.hear_until(
            lambda one: isinstance(one, Ack) and one.data + one.monitor > numbered - ACK_EVERY
        )
        last = voice.last_word(kind, name) if chance.random() < 0.9 else None
        if last is not None:
            stranger.say(last.raw)
        heard += stranger.finish()
        self.said += len(words) + (last is not None)
        taken = count_taken(words, heard)
        self.taken.update((kind, word.what) for word in words[:taken])
        if last is not None and not last.is_spoilt and taken == len(words):
            self.taken[kind, last.what] += 1  # the link was there still, and the broker has read on
        self.refused_commands += sum(
            isinstance(one, Answer) and b"may give no commands" in one.body for one in heard
        )


def count_taken(words: Sequence[FuzzWord], heard: Iterable[Frame]) -> int:
    """How many of the first of these words a broker has acknowledged, those in between that have no number included."""
    acks = [one for one in heard if isinstance(one, Ack)]
    left = {
        Lane.DATA: max((ack.data for ack in acks), default=0),
        Lane.MONITOR: max((ack.monitor for ack in acks), default=0),
    }
    taken = 0
    for count, word in enumerate(words, 1):
        lane = _lane_of(word)
        if lane is Lane.CONTROL:
            continue
        if not left[lane]:
            break
        left[lane] -= 1
        taken = count
    is_all = not any(_lane_of(word) is not Lane.CONTROL for word in words[taken:])
    return len(words) if is_all and taken else taken


def _lane_of(word: FuzzWord) -> Lane:
    return Lane.DATA if word.what is Publication else REGISTRY.lane(word.what)  # type: ignore[arg-type]


def _is_hello(frame: Frame) -> bool:
    return isinstance(frame, Hello)
