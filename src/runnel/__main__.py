"""`python -m runnel`, and the `runnel` program: quiet when it is interrupted, be it while it is still being loaded."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Load the program and run it."""
    try:
        from runnel.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
