"""`runnel stocks`: writes stock quotes and subscriptions as in the papers, to try Runnel with."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from runnel.errors import InputError
from runnel.language import to_sql
from runnel.workload.files import write_events
from runnel.workload.stocks import balance_filters, read_quotes, synthetic_quotes


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--symbols", default=80, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--days", default=500, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--filters", "count", default=3_000, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same files.")
@click.option(
    "--quotes",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Use real quotes from this Parquet, CSV or JSON Lines file instead of generated ones "
    "(columns symbol, open, high, low, close, volume, date; the first SYMBOLS × DAYS rows).",
)
def stocks(
    folder: Path, symbols: int, days: int, count: int, seed: int, quotes: Path | None
) -> None:
    """Write stock quotes and filters into FOLDER, to try `runnel match` with.

    Makes quotes.parquet (daily quotes that walk at random) and filters.txt (a mix of subscriptions known
    from publish/subscribe research: prices and volumes of one stock, of every stock, everything).

    \b
    Example:
      runnel stocks build/demo --symbols 20 --filters 500

    \b
    Exit codes:
      0    the files are written
      2    the command line or the quotes cannot be used, or the files cannot be written; the message says why
    """
    events = list(
        islice(read_quotes(quotes), symbols * days)
        if quotes
        else synthetic_quotes(symbol_count=symbols, days=days, seed=seed)
    )
    try:
        write_events(folder / "quotes.parquet", events)
        with open(folder / "filters.txt", "w", encoding="utf-8") as file:
            for number, wanted in enumerate(balance_filters(events, count, seed=seed), start=1):
                file.write(f"sub-{number:04}: {to_sql(wanted)}\n")
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: cannot be written: {error.strerror}"
        ) from None
    click.echo(f"wrote {len(events):,} quotes to {folder / 'quotes.parquet'}")
    click.echo(f"wrote {count:,} filters to {folder / 'filters.txt'}")
