"""The page on compatibility names the versions that there are, and quotes the errors that are raised."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from runnel.errors import RunnelError
from runnel.node.config import read_config
from runnel.planning.documents import plan
from runnel.trace import schemas
from runnel.wire import PROTOCOL, Decoder, Hello, encode

PAGE = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text(encoding="utf-8")
WIRE_VERSION = PROTOCOL & 0xFF


def test_every_version_is_the_present_one() -> None:
    rows = re.findall(r"^\| (wire|plan|trace) \| `(\d+)` \|([^|]*)\|", PAGE, re.MULTILINE)
    versions = {"wire": WIRE_VERSION, "plan": plan.VERSION, "trace": schemas.VERSION}
    assert {name: int(version) for name, version, _ in rows} == versions
    assert rows[2][2].strip() == f"from `{schemas.OLDEST}` on"


def test_every_version_of_the_wire_is_described() -> None:
    described = re.findall(r"^\| (\d+) \| \w", PAGE, re.MULTILINE)
    assert [int(version) for version in described] == list(range(1, WIRE_VERSION + 1))


def hello_of_the_version_before() -> None:
    hello = encode(Hello(PROTOCOL, "client", "alice", 5, 0, 0, 0, 0))
    version = PROTOCOL.to_bytes(4, "big")
    assert hello.count(version) == 1
    Decoder().feed(hello.replace(version, (PROTOCOL - 1).to_bytes(4, "big")))


@pytest.mark.parametrize(
    "refused",
    [
        hello_of_the_version_before,
        lambda: plan.from_json(b'{"version": %d}' % (plan.VERSION - 1)),
        lambda: schemas.check_version(schemas.VERSION + 1, "trace.json"),
        lambda: schemas.check_version(schemas.OLDEST - 1, "trace.json"),
        lambda: read_config({"name": "B1", "link": {"heartbeats_s": 1}}),
    ],
    ids=["wire", "plan", "newer trace", "older trace", "configuration"],
)
def test_what_is_refused_is_refused_in_the_words_of_the_page(refused: Callable[[], object]) -> None:
    with pytest.raises(RunnelError) as error:
        refused()
    said = str(error.value)
    quotes = re.findall(r"^    (\S.*)$", PAGE, re.MULTILINE)
    assert any(quote in said for quote in quotes), said
