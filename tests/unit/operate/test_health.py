"""What `runnel status` calls degraded, sentence by sentence."""

from __future__ import annotations

from typing import Any

from runnel.operate.health import degradations
from runnel.operate.walk import LiveNetwork


def address(name: str) -> str:
    return f"runnel://10.0.0.1:700{name[-1]}"


def link(name: str, *, up: bool = True, where: str = "") -> dict[str, Any]:
    return {"name": name, "kind": "broker", "up": up, "address": where or address(name)}


def status(name: str, *links: dict[str, Any], **more: Any) -> dict[str, Any]:
    meter = {"dropped": 3, "discarded": 4}
    return {"name": name, "address": address(name), "links": list(links), "meter": meter, **more}


def network(*brokers: dict[str, Any], **silent: str) -> LiveNetwork:
    return LiveNetwork({broker["name"]: broker for broker in brokers}, silent=silent)


def test_nothing_is_wrong_with_a_network_that_is_well() -> None:
    """Also if its brokers are of a version that says less."""
    assert degradations(network(status("B1", link("B2")), status("B2", link("B1")))) == []


def test_a_link_that_is_down_is_named_once() -> None:
    found = degradations(network(status("B1", absent=["B2"]), status("B2", link("B1", up=False))))
    assert found == ["the link B1–B2 is down"]


def test_a_broker_that_does_not_answer_is_named_with_its_reason() -> None:
    found = degradations(network(status("B1"), B2="no broker answers there"))
    assert found[0] == "B2 does not answer: no broker answers there"
    assert "what is behind it is unknown" in found[1]


def test_a_refusal_that_both_sides_tell_of_is_one() -> None:
    given = {"name": "B2", "address": address("B2"), "reason": "it is not wanted"}
    got = {"name": "B1", "address": "", "reason": "it is not wanted"}
    found = degradations(network(status("B1", refused=[given]), status("B2", refused_by=[got])))
    assert found == [f"B1 refuses B2 at {address('B2')}: it is not wanted"]


def test_publications_lost_are_told_for_a_minute() -> None:
    (reason,) = degradations(network(status("B1", lost_ago_s=12.3)))
    assert reason.startswith("B1 has lost publications 12 s ago, 7 since it started")
    assert degradations(network(status("B1", lost_ago_s=61.0))) == []


def test_a_loop_is_none_if_a_link_of_it_is_down_or_a_name_is_shared() -> None:
    ring = [status("B1", link("B2"), link("B3")), status("B2", link("B3")), status("B3")]
    (reason,) = degradations(network(*ring))
    assert "form a loop" in reason
    ring[1] = status("B2", link("B3", up=False))
    assert degradations(network(*ring)) == ["the link B2–B3 is down"]
    ring[1] = status("B2", link("B3", where=address("B9")))
    (reason,) = degradations(network(*ring))
    assert reason.startswith(f"two brokers are called B3: those at {address('B3')} and")
