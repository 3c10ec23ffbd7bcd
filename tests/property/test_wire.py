"""The law of the codec: what is sent comes out, whole, byte by byte and under every split.

Streams are drawn from everything there is to send: publications with any attributes and payload, and
every message of the core with any content that its types allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.language import Filter
from runnel.language.values import is_absent
from runnel.wire import (
    ID_MAX,
    PROTOCOL,
    REGISTRY,
    Ack,
    Advertise,
    Barrier,
    Bye,
    Decoder,
    Fence,
    Frame,
    Goal,
    Hello,
    Mcm,
    Missed,
    Mum,
    Publication,
    Reached,
    Relocate,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    decode_selection,
    encode,
    encode_selection,
    make_publication,
    raw_selection,
)
from strategies import TRICKY_ALPHABET, attributes, selections

EXAMPLES = 2_000

ids = st.one_of(st.integers(0, 300), st.integers(0, ID_MAX))
counters = st.one_of(st.integers(1, 300), st.integers(1, ID_MAX))
ttls = st.integers(0, 255)
names = st.text(st.characters(codec="utf-8"), max_size=12)
raws = selections().map(raw_selection)

publications = st.builds(
    make_publication,
    ids,
    counters,
    attributes(TRICKY_ALPHABET),
    st.binary(max_size=24),
    ttl=ttls,
    flags=st.integers(0, 0xFFFF),
)
messages = st.one_of(
    st.builds(
        Hello,
        st.just(PROTOCOL),
        st.sampled_from(["broker", "client"]),
        names,
        ids,
        ids,
        ids,
        ids,
        ids,
    ),
    st.builds(Ack, ids, ids, ids, st.booleans()),
    st.builds(Advertise, ids, raws, names, ttls, ids),
    st.builds(Unadvertise, ids),
    st.builds(Subscribe, ids, raws, ttls),
    st.builds(Unsubscribe, ids),
    st.builds(Barrier, ids, raws, st.sampled_from(["subscription", "advertisement", "link"])),
    st.builds(Fence, ids),
    st.builds(Missed, ids),
    st.builds(Bye, names),
    st.builds(Mum, ids, raws, names, ttls, ids),
    st.builds(Mcm, ids, ids, st.booleans()),
    st.builds(Relocate, ids, names, names),
    st.builds(Goal, ids, ids, st.integers(0, 3), names),
    st.builds(Reached, ids, st.integers(0, 3), ids),
)
streams = st.lists(st.one_of(publications, messages), min_size=1, max_size=5)


def frame_of(sent: Frame) -> bytes:
    return sent.frame() if isinstance(sent, Publication) else encode(sent)


def received(pieces: Iterable[bytes]) -> list[bytes]:
    """What comes out of a decoder, written again: it says all there is to say, and can be compared."""
    decoder = Decoder()
    frames = [frame_of(frame) for piece in pieces for frame in decoder.feed(piece)]
    assert decoder.waiting_bytes == 0
    return frames


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(places), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(edges)]


def same(sent: Frame, came: Frame) -> bool:
    if not isinstance(sent, Publication):
        return sent == came
    return (
        isinstance(came, Publication)
        and came.identity == sent.identity
        and (came.ttl, came.hops, came.flags) == (sent.ttl, sent.hops, sent.flags)
        and came.attributes == sent.attributes
        and list(map(type, came.attributes.values())) == list(map(type, sent.attributes.values()))
        and came.payload == sent.payload
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(streams, st.data())
def test_what_is_sent_comes_out_however_it_is_split(sent, data):
    frames = [frame_of(one) for one in sent]
    stream = b"".join(frames)
    assert all(map(same, sent, Decoder().feed(stream)))
    assert received([stream]) == frames
    assert received(stream[i : i + 1] for i in range(len(stream))) == frames
    for place in range(len(stream) + 1):
        assert received((stream[:place], stream[place:])) == frames
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    assert received(cut(stream, places)) == frames


@settings(max_examples=EXAMPLES, deadline=None)
@given(attributes(TRICKY_ALPHABET), st.binary(max_size=40), st.integers(1, 255))
def test_a_body_passes_any_number_of_brokers_untouched(event, payload, ttl):
    made = make_publication(7, 1, event, payload, ttl=ttl)
    frame = made.frame()
    for hop in range(1, ttl + 1):
        (publication,) = Decoder().feed(frame)
        assert isinstance(publication, Publication)
        frame = publication.forwarded()
        assert (frame[5], frame[6], frame[7:]) == (ttl - hop, hop, made.frame()[7:])
    (last,) = Decoder().feed(frame)
    assert isinstance(last, Publication) and last.payload == payload
    assert last.attributes == {n: v for n, v in event.items() if not is_absent(v)}


@settings(max_examples=EXAMPLES, deadline=None)
@given(selections(alphabet=TRICKY_ALPHABET))
def test_a_selection_means_the_same_on_the_other_side(selection):
    raw = encode_selection(selection)
    back = decode_selection(raw)
    assert back == selection and type(back) is type(selection)
    assert encode_selection(back) == raw and decode_selection(raw) is back
    assert back.is_contradiction == selection.is_contradiction
    assert all(isinstance(filter_, Filter) for filter_ in back.disjuncts)


def test_every_core_message_is_drawn():
    drawn = {
        Hello,
        Ack,
        Advertise,
        Unadvertise,
        Subscribe,
        Unsubscribe,
        Barrier,
        Fence,
        Missed,
        Bye,
        Mum,
        Mcm,
        Relocate,
        Goal,
        Reached,
    }
    assert {m for m in REGISTRY.messages if m.__module__ == Hello.__module__} == drawn
