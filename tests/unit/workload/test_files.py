"""Files of events and filters are read with their types and places; mistakes name file and line."""

import datetime
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runnel.errors import InputError
from runnel.language import parse
from runnel.workload.files import count_events, read_events, read_filters, write_events


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_json_lines_keep_their_types(tmp_path: Path) -> None:
    path = write(
        tmp_path / "e.jsonl",
        '{"s": "x", "i": 9007199254740993, "f": 2.5, "b": true, "n": null}\n\n{"s": "y"}\n',
    )
    assert list(read_events(path)) == [
        (1, {"s": "x", "i": 9007199254740993, "f": 2.5, "b": True}),
        (3, {"s": "y"}),
    ]


def test_csv_columns_get_types_and_dates_stay_as_written(tmp_path: Path) -> None:
    path = write(
        tmp_path / "e.csv",
        "name,count,price,ok,day,at\nYHOO,3,18.37,true,1996-09-05,2020-01-01 10:00:00\nMSFT,,,,,\n",
    )
    first, second = (event for _, event in read_events(path))
    assert first == {
        "name": "YHOO",
        "count": 3,
        "price": 18.37,
        "ok": True,
        "day": "1996-09-05",
        "at": "2020-01-01 10:00:00",
    }
    assert type(first["count"]) is int
    assert second == {"name": "MSFT"}


def test_parquet_keeps_types_and_turns_dates_into_text(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    day = datetime.date(2013, 2, 8)
    pq.write_table(pa.table({"s": ["x", None], "day": [day, day], "b": [True, False]}), path)
    assert list(read_events(path)) == [
        (1, {"s": "x", "day": "2013-02-08", "b": True}),
        (2, {"day": "2013-02-08", "b": False}),
    ]
    assert count_events(path) == 2


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".csv.gz"])
def test_compressed_text_is_read(tmp_path: Path, suffix: str) -> None:
    text = '{"a": 1}\n' if suffix.startswith(".jsonl") else "a\n1\n"
    path = tmp_path / f"e{suffix}"
    path.write_bytes(gzip.compress(text.encode()))
    assert [event for _, event in read_events(path)] == [{"a": 1}]


def test_events_written_are_events_read(tmp_path: Path) -> None:
    events = [{"a": 1, "s": "é"}, {"a": 2, "s": "z"}]
    for name in ("e.parquet", "e.jsonl", "e.jsonl.gz"):
        assert write_events(tmp_path / "new" / name, events) == 2  # type: ignore[arg-type]
        assert [event for _, event in read_events(tmp_path / "new" / name)] == events


def test_filters_of_a_text_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "f.txt",
        "# a comment\n\ncheap: close < 20\n  [symbol,eq,'YHOO']\nall:\nnote = 'a: b'\n",
    )
    found = read_filters(path)
    assert [wanted.name for wanted in found] == ["cheap", "4", "all", "6"]
    assert found[0].selection == parse("close < 20")
    assert found[2].selection.matches({})
    assert found[3].selection.matches({"note": "a: b"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.csv", "id,filter\n7,\"symbol = 'YHOO'\"\n"),
        ("f.jsonl", '{"id": 7, "filter": "symbol = \'YHOO\'"}\n'),
    ],
)
def test_filters_of_a_table(tmp_path: Path, name: str, text: str) -> None:
    [found] = read_filters(write(tmp_path / name, text))
    assert found == ("7", "symbol = 'YHOO'", parse("symbol = 'YHOO'"))


def test_filters_of_a_parquet_table(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["x"], "filter": ["a > 1"]}), tmp_path / "f.parquet")
    assert [wanted.name for wanted in read_filters(tmp_path / "f.parquet")] == ["x"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("e.jsonl", '{"a": 1}\n{"a": \n', r"e\.jsonl, line 2: this is not JSON"),
        ("e.jsonl", "[1]\n", r"line 1: expected an object"),
        ("e.jsonl", '{"a": [1]}\n', r"line 1: 'a' holds a list"),
        ("e.jsonl", '{"a": 9223372036854775808}\n', r"line 1: .*64 bits"),
        ("e.jsonl", '{"a": "\\ud800"}\n', r"line 1: .*surrogate"),
        ("e.csv", "a,b\n1,2,3\n", r"e\.csv: cannot be read"),
        ("e.csv", "", r"e\.csv: cannot be read"),
        ("e.parquet", "no", r"e\.parquet: cannot be read"),
        ("e.xml", "<a/>", r"cannot tell the format from the suffix '\.xml'"),
        ("events", "", r"\(none\)"),
    ],
)
def test_mistakes_in_events_name_the_place(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        list(read_events(write(tmp_path / name, text)))


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_bytes(b'{"a": "\xe9"}\n')
    with pytest.raises(InputError, match="UTF-8"):
        list(read_events(tmp_path / "e.jsonl"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("e.jsonl", "e.csv", "e.parquet"):
        with pytest.raises(InputError, match="cannot be opened"):
            list(read_events(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.txt", "ok: a = 1\nbad:  a = = 1\n", r"f\.txt, line 2, column 11: expected"),
        ("f.txt", "x: a = 1\nx: a = 2\n", r"line 2: the name 'x' was used in line 1"),
        ("f.txt", "# nothing\n", r"no filter in this file"),
        ("f.csv", "id,wanted\n1,a\n", r"columns id and filter"),
        ("f.jsonl", '{"id": "x", "filter": 5}\n', r"line 1: there is no text under 'filter'"),
        ("f.txt", "a = 9223372036854775808\n", r"line 1: .*64 bits"),
    ],
)
def test_mistakes_in_filters_name_the_place(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_filters(write(tmp_path / name, text))
