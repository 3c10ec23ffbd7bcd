"""The page on operating names every command to a broker, and what gives it."""

import re
from pathlib import Path

from click import Group

from runnel.broker.questions import Command
from runnel.cli.main import main
from runnel.compose import MODULES
from runnel.errors import BugError

PAGE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## What changes a running network")[2].partition("\n## ")[0]


def test_every_command_to_a_broker_is_in_the_table() -> None:
    if not MODULES:  # which also imports them
        raise BugError("there are no modules")
    own = [kind for kind in Command.__subclasses__() if kind.__module__.startswith("runnel.")]
    rows = re.findall(r"^\|.*\| ([^|]*) \|$", TABLE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    assert named == {kind.asked_as for kind in own}


def test_the_programs_commands_in_the_table_are_there() -> None:
    assert isinstance(main, Group)
    for words in re.findall(r"`runnel ([a-z -]+)`", TABLE):
        name, *rest = words.split()
        command = main.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None, words
        if rest and rest[0].startswith("--"):
            options = [option for one in command.params for option in one.opts]
            assert rest[0] in options, words
