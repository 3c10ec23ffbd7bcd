"""Any file of events: filters come from its own values, and match the share that was asked for."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.language import Op
from runnel.workload.files import Event, write_events
from runnel.workload.measure import measure
from runnel.workload.registry import make_workload

ROWS = 4_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = Random(5)
    rows: list[Event] = []
    for number in range(ROWS):
        row: Event = {
            "city": random.choices(["a", "b", "c", "d"], [50, 30, 15, 5])[0],
            "loud": random.random() < 0.3,
            "heat": round(random.gauss(20, 8), 2),
            "rain": 0 if random.random() < 0.9 else random.randrange(1, 80),
            "note": f"free text {number}",
        }
        if random.random() < 0.1:
            del row["heat"]
        rows.append(row)
    path = tmp_path_factory.mktemp("events")
    write_events(path / "weather.parquet", rows)
    write_events(path / "weather.jsonl", rows)
    return path


def make(folder: Path, **table: Any) -> Any:
    return make_workload("events", {"path": "weather.parquet"} | table, folder=folder)


@pytest.mark.parametrize("selectivity", [0.005, 0.05, 0.2, 0.5])
def test_filters_match_the_share_that_is_asked_for(folder: Path, selectivity: float) -> None:
    workload = make(folder, selectivity=selectivity)
    found = measure(workload, publications=ROWS)
    assert found.matched_share == pytest.approx(selectivity, abs=0.01)
    assert found.matched_share == pytest.approx(workload.facts["selectivity"], abs=1e-9)


def test_filters_are_equalities_and_ranges_on_columns_that_suit(folder: Path) -> None:
    seen = {(p.attribute, p.op) for s in make(folder).subscribers for p in s.selection.predicates}
    assert {("city", Op.EQ), ("loud", Op.EQ), ("heat", Op.GE), ("heat", Op.LE)} <= seen
    assert not any(attribute == "note" for attribute, _ in seen)


def test_the_format_of_the_file_does_not_matter(folder: Path) -> None:
    assert make(folder).subscribers == make(folder, path="weather.jsonl").subscribers


def test_one_publisher_for_each_value_of_a_column(folder: Path) -> None:
    workload = make(folder, by="city", rate_per_s=50)
    assert len(workload.publishers) == 4
    assert workload.rate_per_s == pytest.approx(50)
    assert workload.publishers[0].rate_per_s == pytest.approx(25, rel=0.1)
    for one in workload.publishers:
        assert len({event["city"] for event in one.events.events}) == 1
        assert all(map(one.advertisement.matches, one.events.events))


def test_only_so_many_rows_are_read(folder: Path) -> None:
    (publisher,) = make(folder, rows_max=10).publishers
    assert len(publisher.events.events) == 10


def test_true_and_one_are_different_values(tmp_path: Path) -> None:
    """Python takes True for 1; a filter on one must not count the events with the other."""
    rows: list[Event] = [{"x": True if n % 4 == 0 else 1} for n in range(100)]
    write_events(tmp_path / "mixed.jsonl", rows)
    table = {"path": "mixed.jsonl", "selectivity": 0.25, "subscriptions": 50}
    workload = make_workload("events", table, folder=tmp_path)
    kinds = {type(p.value) for s in workload.subscribers for p in s.selection.predicates}  # type: ignore[union-attr]
    assert kinds == {bool, int}
    found = measure(workload, publications=100)
    assert found.matched_share == pytest.approx(workload.facts["selectivity"], abs=1e-9)


def test_what_is_not_a_number_is_left_out(tmp_path: Path) -> None:
    rows = "".join(f'{{"v": {"NaN" if n % 2 else n}, "k": {n % 3}}}\n' for n in range(200))
    (tmp_path / "nan.jsonl").write_text(rows)
    table = {"path": "nan.jsonl", "selectivity": 0.1, "subscriptions": 200}
    workload = make_workload("events", table, folder=tmp_path)
    found = measure(workload, publications=200)
    assert found.matched_share == pytest.approx(workload.facts["selectivity"], abs=1e-9)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"by": "note"}, "by: must be a column with 1 to 64 values .* 'note' has 4000"),
        ({"by": "nowhere"}, "'nowhere' has 0"),
        ({"selectivity": 0}, "selectivity: must be at least 1e-06, got 0"),
        ({"path": "gone.csv"}, "gone.csv: cannot be opened"),
    ],
)
def test_mistakes(folder: Path, table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(folder, **table)


def test_a_file_with_nothing_to_filter_on(tmp_path: Path) -> None:
    write_events(tmp_path / "text.jsonl", [{"note": f"{n}"} for n in range(100)])
    with pytest.raises(InputError, match="no column to filter on"):
        make_workload("events", {"path": "text.jsonl"}, folder=tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match="path: there is no event"):
        make_workload("events", {"path": "empty.jsonl"}, folder=tmp_path)
