"""Which entries of a storm are logged, and what is said of the others."""

from __future__ import annotations

from logging import ERROR, INFO, WARNING

from runnel.node.storms import OTHERS_MAX, WARNINGS_MAX, WINDOW_S, LogEntry, Storms


def test_a_warning_that_says_the_same_is_logged_once_and_then_counted() -> None:
    storms = Storms()
    entry = LogEntry("descriptors-exhausted", WARNING, {"limit": 40})
    assert [storms.admits(entry, 0.0) for _ in range(100)].count(True) == 1
    assert not list(storms.summaries(WINDOW_S - 1)) and not storms.is_over
    (summary,) = storms.summaries(WINDOW_S)
    assert summary.data == {"limit": 40, "repeated": 99, "within_s": 10}
    assert storms.is_over and storms.admits(entry, WINDOW_S + 1)


def test_links_that_come_and_go_are_all_logged_unless_there_are_very_many() -> None:
    storms = Storms()
    entry = LogEntry("link-up", INFO, {"peer": "B2"})
    admitted = [storms.admits(entry, 0.0) for _ in range(OTHERS_MAX + 50)]
    assert admitted == [True] * OTHERS_MAX + [False] * 50


def test_what_happens_now_and_then_is_logged_each_time() -> None:
    storms = Storms()
    entry = LogEntry("peer-error", WARNING, {"peer": "x"})
    assert all(storms.admits(entry, number * WINDOW_S) for number in range(3 * WARNINGS_MAX))


def test_storms_of_different_events_are_counted_apart_and_errors_never() -> None:
    storms = Storms()
    for number in range(50):
        assert storms.admits(LogEntry("bug", ERROR, {}), 0.0)
        storms.admits(LogEntry("peer-error", WARNING, {"peer": str(number)}), 0.0)
    assert storms.admits(LogEntry("dropped", WARNING, {}), 0.0)
    (summary,) = storms.summaries(1.0, all_now=True)
    assert (summary.event, summary.data["repeated"]) == ("peer-error", 50 - WARNINGS_MAX)
