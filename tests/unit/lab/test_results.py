"""Results can be judged again, and cheats show: by what is declared now, and by measuring once more."""

from __future__ import annotations

import msgspec
import pytest

from runnel.errors import BugError
from runnel.lab.claims import (
    RowValue,
    count_outcomes,
    describe_counts,
    judge_rows,
    median,
    outcome_of,
)
from runnel.lab.criteria import Constant, Criteria, Criterion
from runnel.lab.report import Findings, Setup, claims_table, make_results, report_markdown
from runnel.lab.results import (
    Expected,
    Results,
    compare_values,
    encode_results,
    find_mistakes,
    make_command,
    seal,
)

replace = msgspec.structs.replace
UP_TO = Criterion("rate", "claim", "rate falls by up to", "85%", "abstract", "up to", 85, "%")
FITTED = Criterion("fit", "calibrated", "overhead", "32%", "§5", "at most", 32, "%")
TIMED = Criterion("time", "claim", "takes", "2 s", "§4", "at most", 2, "s", by_clock=True)
NEVER = Criterion("never", "claim", "pings", "30 s", "§5", "about", 30, "s")
OURS = Criterion("lost", "ours", "lost", low=0, high=0)
OVER = Criterion("over", "ours", "overhead", high=40, over=("rate",))
RATE = Constant("publications per minute", "not printed", "90", calibrated_by=("fit",))
CRITERIA = Criteria(
    (UP_TO, FITTED, TIMED, NEVER, OURS, OVER), "Six publishers.", constants={"rate": RATE}
)
MEASURED = frozenset({"rate", "fit", "time", "lost", "over"})
SETUP = Setup(["placement"], "quick", 1, 3)


def findings(rate: float) -> Findings:
    values = {"rate": rate, "fit": 31.0, "time": 1.5, "lost": 0}
    measured = {id: RowValue(value, "a note") for id, value in values.items()}
    measured["over"] = RowValue(31, "a note", {"rate": {30: 42, 90: 31}})
    return Findings("placement", "Placement", "Brokers.", measured)


def results(criteria: Criteria = CRITERIA) -> Results:
    return make_results(SETUP, [(criteria, [findings(n) for n in (90, 80, 84)])], "a machine")


def mistakes(changed: Results, criteria: Criteria = CRITERIA) -> str:
    """Of results that their editor has sealed again, since anybody can."""
    expected = Expected(criteria, "Placement", "Brokers.", MEASURED)
    return "; ".join(find_mistakes(seal(changed), {"placement": expected}))


def change_row(id: str, **values: object) -> Results:
    whole = results()
    rows = [replace(row, **values) if row.id == id else row for row in whole.rows]
    return replace(whole, rows=tuple(rows))


def test_rows_are_judged_by_the_median_of_their_seeds() -> None:
    row = results().rows[0]
    assert (row.ours, row.values, row.outcome) == (84, (90, 80, 84), "differs")
    assert mistakes(results()) == ""
    again = msgspec.json.decode(encode_results(results()), type=Results)
    assert again == results() and seal(again).sealed == results().sealed


def test_kinds_are_never_added_up_and_what_is_not_measured_does_not_hold() -> None:
    assert describe_counts(count_outcomes(results().rows)) == [
        "claims: 1 of 3 hold, 1 differs, 1 not measured",
        "calibrated, so no evidence: 1 of 1 hold, 0 differ, 0 not measured",
        "our own: 2 of 2 hold, 0 differ, 0 not measured",
    ]
    text = report_markdown(results())
    assert "| pings | “30 s” (§5) | about: 22.5 to 37.5 | not measured | **not measured** |" in text
    assert "84% (80 to 90)" in text and "1.5 s, by the clock" in text


def test_seeds_that_could_not_measure_are_said() -> None:
    nothing = {"rate": RowValue(float("nan"))}
    some = [{"rate": RowValue(90)}, nothing, {"rate": RowValue(80)}]
    row = judge_rows("placement", Criteria((UP_TO,)), some)[0]
    assert (row.ours, row.values, row.outcome) == (85, (90, None, 80), "holds")
    assert claims_table([row]).rows[0][3] == "85%, measured with 2 of 3 seeds (80 to 90)"
    assert judge_rows("placement", Criteria((UP_TO,)), [nothing])[0].outcome == "not measured"


def test_values_that_nobody_declared_are_bugs() -> None:
    with pytest.raises(BugError, match="measures what nobody declared: rates"):
        judge_rows("placement", CRITERIA, [{"rates": RowValue(1)}])


def test_a_criterion_that_was_loosened_after_the_run_shows() -> None:
    looser = replace(CRITERIA, row=(replace(UP_TO, paper=80), *CRITERIA.row[1:]))
    told = mistakes(results(), looser)
    assert "was judged by criteria" in told and "run it again (runnel reproduce placement" in told
    assert "rate: is not what is declared" in told


def test_a_calibrated_row_that_is_counted_as_a_claim_shows() -> None:
    cheat = change_row("fit", declared=replace(FITTED, kind="claim"))
    assert "fit: is not what is declared" in mistakes(cheat)


@pytest.mark.parametrize(
    "values",
    [{"outcome": "holds"}, {"ours": 90}, {"values": (90, 90, 84)}, {"values": (90,)}],
)
def test_a_row_that_was_edited_shows(values: dict[str, object]) -> None:
    assert mistakes(change_row("rate", **values)).startswith("rate: ")


def test_rows_that_are_left_out_or_added_show() -> None:
    whole = results()
    assert "never: is declared, and not among" in mistakes(
        replace(whole, rows=tuple(row for row in whole.rows if row.id != "never"))
    )
    more = replace(whole.rows[0], declared=replace(UP_TO, id="more"))
    assert "more: is among the results, and not declared" in mistakes(
        replace(whole, rows=(*whole.rows, more))
    )


def test_values_that_were_edited_so_that_all_fits_show_when_they_are_measured_again() -> None:
    cheat = change_row("rate", values=(90, 86, 88), ours=88, outcome="holds")
    assert mistakes(cheat) == ""
    measured = {"placement": dict(findings(80).values)}
    assert compare_values(results(), 2, measured) == []
    assert compare_values(cheat, 2, measured) == [
        "placement rate, seed 2: results have 86, now it is 80"
    ]


def test_notes_and_curves_are_measured_again_too() -> None:
    for values in ({"note": "what suits"}, {"curves": {"rate": ((30, 42), (90, 39))}}):
        cheat = change_row("over", **values)
        assert mistakes(cheat) == ""
        told = compare_values(cheat, 1, {"placement": dict(findings(90).values)})
        assert len(told) == 1 and next(iter(values)).rstrip("s") in told[0]
    assert compare_values(results(), 1, {"placement": dict(findings(90).values)}) == []


def test_a_file_that_was_edited_by_hand_shows_whatever_was_edited() -> None:
    whole = results()
    expected = {"placement": Expected(CRITERIA)}
    assert find_mistakes(whole, expected) == []
    for cheat in (
        replace(whole, machine="a faster machine"),
        change_row("over", note="what suits"),
        change_row("over", curves={"rate": ((30, 40), (90, 39))}),
    ):
        assert find_mistakes(cheat, expected) == [
            "results: were edited after the run: the seal does not fit them"
        ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("setting", "More brokers."),
        ("title", "Better placement"),
        ("workload", "Sixty publishers."),
        ("seeds_declared", 3),
        ("constants", {"rate": replace(RATE, used="70")}),
    ],
)
def test_what_was_run_cannot_be_told_otherwise(field: str, value: object) -> None:
    whole = results()
    one = replace(whole.experiments[0], **{field: value})
    assert f"placement: {field} is not what is declared" in mistakes(
        replace(whole, experiments=(one,))
    )


def test_a_command_of_another_run_shows() -> None:
    told = mistakes(replace(results(), command="runnel reproduce placement --scale paper --seed 1"))
    assert "does not give seeds (1, 2, 3) at this scale" in told


def drop_seed(whole: Results, place: int) -> Results:
    """A seed with unwelcome values is left out of seeds, values and command."""
    keep = [n for n in range(len(whole.seeds)) if n != place]
    rows = []
    for row in whole.rows:
        values = tuple(row.values[n] for n in keep) if row.values else ()
        ours = median(values)
        rows.append(replace(row, values=values, ours=ours, outcome=outcome_of(row.declared, ours)))
    seeds = tuple(whole.seeds[n] for n in keep)
    command = make_command(["placement"], whole.scale, seeds)
    return replace(whole, rows=tuple(rows), seeds=seeds, command=command)


def test_seeds_that_are_left_out_everywhere_show() -> None:
    many = replace(CRITERIA, seeds=3)
    whole = make_results(
        Setup(["placement"], "paper", 1, 3), [(many, [findings(n) for n in (90, 80, 84)])], "here"
    )
    assert mistakes(whole, many) == ""
    assert "placement: has 2 seeds, and 3 are declared" in mistakes(drop_seed(whole, 2), many)
    assert "do not follow each other" in mistakes(drop_seed(whole, 1), many)


def test_at_the_quick_scale_fewer_seeds_will_do() -> None:
    assert mistakes(drop_seed(results(), 2)) == ""


def test_a_row_that_is_measured_must_have_values() -> None:
    cheat = change_row("rate", values=(), ours=None, outcome="not measured")
    assert mistakes(cheat) == "rate: is measured, and has no values"


def test_a_curve_that_is_left_out_shows() -> None:
    assert mistakes(change_row("over", curves={})).startswith("over: has curves over []")


def test_times_by_the_clock_may_differ() -> None:
    assert compare_values(results(), 1, {"placement": {"time": RowValue(9.9)}}) == []


def test_a_report_of_too_few_seeds_says_so() -> None:
    text = report_markdown(results(replace(CRITERIA, seeds=10)))
    assert "3; 10 are declared to decide. What is near its bound here is decided by chance" in text
    assert "declared to decide" not in report_markdown(results())
