"""The parameters of placement, as a file would have them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from runnel.modules.placement.config import PlacementConfig, PublisherSettings


def test_the_defaults_are_the_papers() -> None:
    config = PlacementConfig()
    assert (config.algorithm, config.n, config.w_s, config.p_threshold) == ("off", 50, 60, 100)
    assert (config.running_average, config.damping, config.g_threshold) == (0.25, 0, 100)
    assert (config.ping_samples, config.dry_run) == (5, False)


def test_a_publisher_may_have_its_own_way_in_part() -> None:
    said = {
        "algorithm": "grape",
        "metric": "delay",
        "weight_percent": 25,
        "publishers": {"Q": {"weight_percent": 0}, "R": {"algorithm": "off"}},
    }
    config = msgspec.convert(said, PlacementConfig)
    assert config.of("P") == PublisherSettings("grape", "delay", 25)
    assert config.of("Q") == PublisherSettings("grape", "delay", 0)
    assert config.of("R") == PublisherSettings("off", "delay", 25)
    assert config.uses_algorithm("grape") and not config.uses_algorithm("pop")


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithm": "best"},
        {"metric": "price"},
        {"weight_percent": 101},
        {"g_threshold": 0},
        {"g_threshold": 40_000},
        {"damping": -1},
        {"running_average": 0},
        {"p_treshold": 5},
        {"publishers": {"P": {"metric": "load", "wait": 5}}},
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, PlacementConfig)
