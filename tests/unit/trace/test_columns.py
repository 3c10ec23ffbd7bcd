"""Columns cut out of frames say what the publications say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from runnel.trace.columns import to_table
from runnel.trace.reader import attributes_of
from runnel.trace.recorder import Recorder
from runnel.trace.schemas import SCHEMAS
from runnel.wire import Publication, make_publication
from support.taping import after_hops, enter, leave

publications = st.builds(
    make_publication,
    st.integers(0, 2**63 - 1),
    st.integers(1, 2**63 - 1),
    st.dictionaries(
        st.text(min_size=1, max_size=8), st.integers(-5, 5) | st.text(max_size=5), max_size=4
    ),
    st.binary(max_size=20),
    publisher=st.text(max_size=20),
    time_ns=st.integers(0, 2**63 - 1),
    ttl=st.just(9),
)
runs = st.lists(st.lists(publications, min_size=1, max_size=5), min_size=1, max_size=5)


@given(runs)
def test_publications(runs: list[list[Publication]]) -> None:
    recorder = Recorder()
    for at, run in enumerate(runs):
        enter(recorder, f"B{at}", at, *run)
    table = to_table("publications", recorder.take())
    table.validate(full=True)
    assert table.schema == SCHEMAS["publications"]
    rows = table.to_pylist()
    expected = [(f"B{at}", at, p) for at, run in enumerate(runs) for p in run]
    assert len(rows) == len(expected)
    for row, (broker, at, publication) in zip(rows, expected, strict=True):
        assert (row["broker"], row["time_ns"]) == (broker, at)
        assert (row["advertisement"], row["counter"]) == publication.identity
        assert row["published_ns"] == publication.time_ns
        assert row["publisher"] == publication.publisher
        assert row["size_bytes"] == len(publication.raw)
        assert attributes_of(row["attributes"]) == publication.attributes


@given(st.lists(st.tuples(publications, st.integers(0, 3), st.integers(1, 4)), min_size=1))
def test_deliveries(delivered: list[tuple[Publication, int, int]]) -> None:
    recorder = Recorder()
    expected = []
    for at, (publication, hops, wanted_by) in enumerate(delivered):
        wanted = tuple((at * 10 + n, f"client {n}") for n in range(wanted_by))
        leave(recorder, "B", at, after_hops(publication, hops), *wanted)
        expected += [(publication, hops, *who) for who in wanted]
    rows = to_table("deliveries", recorder.take()).to_pylist()
    assert [
        (
            *(row["advertisement"], row["counter"], row["published_ns"]),
            *(row["hops"], row["subscription"], row["client"]),
        )
        for row in rows
    ] == [(*p.identity, p.time_ns, hops, id, client) for p, hops, id, client in expected]


def test_a_name_that_is_no_text_does_not_stop_the_trace() -> None:
    good = make_publication(7, 1, {"a": 1}, publisher="quotes")
    bad = replace(good, raw=good.raw.replace(b"quotes", b"qu\xfftes"))
    recorder = Recorder()
    enter(recorder, "B", 1, good, bad)
    names = to_table("publications", recorder.take())["publisher"].to_pylist()
    assert names == ["quotes", "qu\ufffdtes"]
