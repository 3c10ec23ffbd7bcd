"""The tables of modules: what a module declares is what stands there."""

from docs.tables import modules_table
from runnel.compose import MODULES


def test_a_module_of_ones_own_is_in_the_table_with_all_that_it_brings() -> None:
    from support import tallying

    MODULES.pop("tally", None)  # importing it has registered it, which no other test is to notice
    row = modules_table({"tally": tallying.TALLY}).splitlines()[-1]
    assert row == (
        "| `tally` | knows how many publications have come to each neighbour | `[tally]` "
        "| `Tallied` | `tally:tell` | `tally` |"
    )
