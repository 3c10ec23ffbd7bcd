"""The text of the journey of a publication names what is there, and what the publication really passes."""

import re

import pytest

from docs.generated import PARTS, between
from docs.journey import all_places, calls_at, files_at, record
from docs.places import FILE, PLACE, ROOT, SOURCES

PAGE = (ROOT / "docs" / "journey-of-a-publication.md").read_text(encoding="utf-8")
TEXT = PAGE
for part in PARTS:
    TEXT = between(part).sub("", TEXT)
NAMED = sorted(set(PLACE.findall(TEXT)))
FILES = sorted(set(FILE.findall(TEXT)))
SECTIONS = [section.partition("\n") for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)]
ON_THE_WAY = [
    (title, "::".join(found))
    for title, _, section in SECTIONS
    if not title.startswith(("Before", "When"))
    for found in PLACE.findall(section)
]


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_named_exists(file: str) -> None:
    assert any((folder / file).exists() for folder in (ROOT, SOURCES))


@pytest.mark.parametrize(("title", "place"), ON_THE_WAY)
def test_a_place_on_the_way_was_passed(title: str, place: str) -> None:
    assert place in all_places(), f"{title!r} names what was not called"


def test_the_publication_goes_from_the_call_at_p_through_both_brokers_to_the_event_at_s() -> None:
    way = [chain.at for chain in record() if chain.at != "P"]
    assert way == ["B1", "B2", "S", "S"]
    assert "Publisher.publish" in calls_at("P").splitlines()[0]
    assert "Subscription.get" in calls_at("S").splitlines()[-2]


def test_the_files_that_it_passes_in_b1_lead_from_socket_to_socket() -> None:
    files = re.findall(r"^\| `([\w/]+\.py)` \|", files_at("B1"), re.MULTILINE)
    assert files[:3] == ["net/tcp.py", "net/driver.py", "broker/broker.py"]
    assert {"broker/router.py", "broker/links.py"} <= set(files)
    assert "`TcpConnection.write`" in files_at("B1").splitlines()[2]


def test_the_journey_names_its_places() -> None:
    assert len(NAMED) > 30 and len(ON_THE_WAY) > 20
    assert "::" not in PLACE.sub("", TEXT), "a name that is not checked"
