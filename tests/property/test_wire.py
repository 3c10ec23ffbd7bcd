"""The law of the codec: what is sent comes out, whole, byte by byte and under every split.

Streams are drawn from everything there is to send: publications with any attributes and payload, and
every message of the core with any content that its types allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from hypothesis import given
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
    ClientHere,
    Credentials,
    Decoder,
    Denied,
    Extension,
    Fence,
    Frame,
    Goal,
    Handover,
    Hello,
    Listens,
    Loss,
    Mcm,
    Missed,
    MissingLinks,
    Mum,
    PingAnswer,
    Pinged,
    PingRequest,
    Publication,
    Reached,
    Refused,
    RefusedPublications,
    Relocate,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    decode_selection,
    encode,
    encode_selection,
    make_publication,
    raw_selection,
    with_scope,
    with_stamp,
)
from runnel.wire.extension import encode_extension
from runnel.wire.messages import LOSS_NAMES_MAX, MISSING_LINKS_MAX
from support.effort import examples
from support.strategies import TRICKY_ALPHABET, attributes, selections

EXAMPLES = 2_000

ids = st.one_of(st.integers(0, 300), st.integers(0, ID_MAX))
counters = st.one_of(st.integers(1, 300), st.integers(1, ID_MAX))
generations = st.one_of(st.integers(0, 3), st.integers(0, 2**32))
ttls = st.integers(0, 255)
names = st.text(st.characters(codec="utf-8"), max_size=12)
losses = st.lists(ids, max_size=5).map(tuple)
links = st.lists(names, max_size=MISSING_LINKS_MAX).map(tuple)
extensions = st.builds(Extension, ids, ids, ids, st.binary(max_size=12))
raws = selections().map(raw_selection)

publications = st.builds(
    make_publication,
    ids,
    counters,
    attributes(TRICKY_ALPHABET),
    st.binary(max_size=24),
    ttl=ttls,
    flags=st.integers(0, 0xFFFF),
    scope=st.integers(0, 0xFF),
    extension=st.none() | extensions,
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
    st.builds(Ack, ids, ids, ids, st.booleans(), ids, ids),
    st.builds(Advertise, ids, raws, names, ttls, ids),
    st.builds(Unadvertise, ids),
    st.builds(Subscribe, ids, raws, ttls),
    st.builds(Unsubscribe, ids),
    st.builds(
        Barrier,
        ids,
        raws,
        st.sampled_from(["subscription", "advertisement", "link"]),
        st.booleans(),
    ),
    st.builds(Fence, ids, st.booleans(), links),
    st.builds(MissingLinks, links),
    st.builds(Listens, names),
    st.builds(ClientHere, names, ids, names, ttls),
    st.builds(Handover, ids, names, names, ids, ids),
    st.builds(Missed, ids),
    st.builds(
        Loss,
        names,
        ids,
        ids,
        names,
        ids,
        st.sampled_from(["brokers", "subscriber", "publisher"]),
        losses,
        losses,
        st.lists(names, max_size=LOSS_NAMES_MAX).map(tuple),
    ),
    st.builds(Refused, ids, names),
    st.builds(Credentials, names, names, names),
    st.builds(Denied, names),
    st.builds(RefusedPublications, ids, st.lists(ids, max_size=3).map(tuple), names),
    st.builds(Bye, names),
    st.builds(Mum, ids, raws, names, ttls, ids),
    st.builds(Mcm, ids, ids, st.booleans()),
    st.builds(Relocate, ids, names, names),
    st.builds(
        *(PingRequest, ids, ids),
        st.lists(st.builds(Pinged, names, names), max_size=3).map(tuple),
        st.integers(1, 100),
    ),
    st.builds(PingAnswer, ids, ids, st.lists(ids, max_size=3).map(tuple)),
    st.builds(Goal, generations, ids, st.integers(0, 3), names),
    st.builds(Reached, generations, st.integers(0, 3), ids),
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
        and (came.scope, came.extension) == (sent.scope, sent.extension)
    )


@examples(EXAMPLES)
@given(streams, st.data())
def test_what_is_sent_comes_out_however_it_is_split(sent: Any, data: Any) -> None:
    frames = [frame_of(one) for one in sent]
    stream = b"".join(frames)
    assert all(map(same, sent, Decoder().feed(stream)))
    assert received([stream]) == frames
    assert received(stream[i : i + 1] for i in range(len(stream))) == frames
    for place in range(len(stream) + 1):
        assert received((stream[:place], stream[place:])) == frames
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    assert received(cut(stream, places)) == frames


@examples(EXAMPLES)
@given(
    attributes(TRICKY_ALPHABET),
    st.binary(max_size=40),
    st.integers(1, 255),
    st.integers(0, 255),
    st.none() | extensions,
)
def test_a_body_passes_any_number_of_brokers_untouched(
    event: Any, payload: bytes, ttl: int, scope: int, extension: Extension | None
) -> None:
    made = make_publication(7, 1, event, payload, ttl=ttl, scope=scope, extension=extension)
    frame = made.frame()
    for hop in range(1, ttl + 1):
        (publication,) = Decoder().feed(frame)
        assert isinstance(publication, Publication)
        frame = publication.forwarded()
        assert (frame[6], frame[7], frame[8:]) == (ttl - hop, hop, made.frame()[8:])
        assert frame[:6] == made.frame()[:6]
    (last,) = Decoder().feed(frame)
    assert isinstance(last, Publication) and last.payload == payload
    assert (last.scope, last.extension) == (scope, extension)
    assert last.attributes == {n: v for n, v in event.items() if not is_absent(v)}


@examples(EXAMPLES)
@given(publications, extensions, ids, ids, st.integers(0, 255))
def test_a_stamp_and_a_scope_change_what_they_say_and_nothing_else(
    plain: Publication, before: Extension, storage: int, epoch: int, scope: int
) -> None:
    made = make_publication(
        *(*plain.identity, plain.attributes, plain.payload),
        ttl=plain.ttl,
        flags=plain.flags,
        extension=before,
    )
    stamped = with_scope(with_stamp(made.frame(), storage, epoch), scope)
    after = Extension(before.sequence, storage, epoch, before.rest)
    assert stamped == with_scope(made.frame(), scope)[: -len(encode_extension(after))] + (
        encode_extension(after)
    )
    (came,) = Decoder().feed(stamped)
    assert isinstance(came, Publication)
    assert (came.scope, came.extension, came.payload) == (scope, after, plain.payload)
    assert came.attributes == plain.attributes


@examples(EXAMPLES)
@given(selections(alphabet=TRICKY_ALPHABET))
def test_a_selection_means_the_same_on_the_other_side(selection: Any) -> None:
    raw = encode_selection(selection)
    back = decode_selection(raw)
    assert back == selection and type(back) is type(selection)
    assert encode_selection(back) == raw and decode_selection(raw) is back
    assert back.is_contradiction == selection.is_contradiction
    assert all(isinstance(filter_, Filter) for filter_ in back.disjuncts)


def test_every_core_message_is_drawn() -> None:
    drawn = {
        Hello,
        Listens,
        ClientHere,
        Ack,
        Advertise,
        Unadvertise,
        Subscribe,
        Unsubscribe,
        Barrier,
        Fence,
        Handover,
        Loss,
        Credentials,
        Denied,
        RefusedPublications,
        Missed,
        MissingLinks,
        Refused,
        Bye,
        Mum,
        Mcm,
        Relocate,
        PingRequest,
        PingAnswer,
        Goal,
        Reached,
    }
    assert {m for m in REGISTRY.messages if m.__module__ == Hello.__module__} == drawn
