"""The meter: what balance §3.2 calls Ir, matching delay and Or, with the corner cases of eq. (3)."""

import pytest

from runnel.broker.meter import Load, Meter, output_ratio
from runnel.quantities import SECOND


def test_a_reading_is_a_copy() -> None:
    meter = Meter(publications_in=1)
    reading = meter.copy()
    meter.publications_in += 1
    assert (reading.publications_in, meter.publications_in) == (1, 2)


def test_a_load_is_what_happened_between_two_readings() -> None:
    before = Meter(publications_in=100, publications_out=10, matching_ns=10**6)
    after = Meter(publications_in=300, publications_out=110, matching_ns=10**6 + 4 * 10**8)
    load = Load.between(before, after, 2 * SECOND)
    assert load.input_rate == 100.0
    assert load.output_rate == 50.0
    assert load.matching_delay_s == 0.002
    # Ir = ir / mr with mr = 1 / matching delay: 100/s against 500/s
    assert load.input_ratio == pytest.approx(load.input_rate * load.matching_delay_s) == 0.2


def test_an_idle_window_has_no_load() -> None:
    load = Load.between(Meter(), Meter(), SECOND)
    assert load == Load(SECOND, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("busy", "received", "sent", "expected"),
    [
        (500, 100, 100, 0.5),  # as much comes as goes: the share of time it sends
        (500, 300, 200, 0.75),  # more comes than goes: the queue grows
        (1_000, 300, 100, 3.0),  # overload shows as more than 1
        (500, 100, 200, 0.5),  # a queue that drains is not less busy: held at 1
        (500, 0, 200, 0.5),  # only old messages go
        (0, 0, 0, 0.0),  # idle
        (0, 100, 0, 1.0),  # a backlog, and nothing goes: eq. (3) as printed would divide by nothing
    ],
)
def test_output_ratio(busy: int, received: int, sent: int, expected: float) -> None:
    assert output_ratio(busy, 1_000, received, sent) == expected
