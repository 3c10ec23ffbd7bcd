"""The tables hold nothing that another reader would take for something else."""

from __future__ import annotations

from types import UnionType
from typing import get_type_hints

import pyarrow as pa
import pytest

from runnel.errors import InputError
from runnel.trace.schemas import (
    OLDEST,
    ROWS,
    SCHEMAS,
    VERSION,
    ControlRow,
    check_version,
    schema_of,
)

PLAIN = {pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.bool_()}


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_table_begins_with_time_and_broker_and_holds_plain_types(table: str) -> None:
    schema = schema_of(table)
    assert schema.names[:2] == ["time_ns", "broker"]
    assert schema.field("time_ns").type == pa.int64()
    for field in schema:
        if pa.types.is_map(field.type):
            assert {field.type.key_type, field.type.item_type} <= PLAIN
        else:
            assert field.type in PLAIN, field


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_column_is_null_only_where_the_field_of_the_row_may_be_none(table: str) -> None:
    hints = get_type_hints(ROWS[table])
    optional = {name for name, kind in hints.items() if isinstance(kind, UnionType)}
    assert {field.name for field in SCHEMAS[table] if field.nullable} == optional


def test_a_row_that_leaves_a_column_out_or_invents_one_is_refused() -> None:
    with pytest.raises(TypeError, match="Missing required argument 'detail'"):
        ControlRow(time_ns=1, broker="B", kind="moved", entity="")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Unexpected keyword argument 'weather'"):
        ControlRow(  # type: ignore[call-arg]
            time_ns=1, broker="B", kind="moved", entity="", detail="{}", weather="fair"
        )


def test_what_names_a_publication_is_the_same_in_both_tables() -> None:
    for column in ("advertisement", "counter", "published_ns"):
        one, other = (SCHEMAS[table].field(column) for table in ("publications", "deliveries"))
        assert one == other


@pytest.mark.parametrize(
    ("version", "cure"),
    [(VERSION + 1, "newer Runnel"), (OLDEST - 1, "that wrote it"), ("x", "that wrote it")],
)
def test_a_version_that_cannot_be_read_says_what_to_do(version: object, cure: str) -> None:
    with pytest.raises(InputError, match=cure):
        check_version(version, "trace.json")
