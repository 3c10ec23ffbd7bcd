"""`python -m runnel`: the same as the `runnel` program."""

from runnel.cli.main import main

main()
