"""`runnel certs`: certificates for a network with TLS, from an authority of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from runnel.cli.show.tables import make_table, show
from runnel.operate.certificate_folder import AUTHORITY, OPERATOR, CertificateFolder
from runnel.operate.certificates import (
    DAYS,
    make_authority,
    make_certificates,
    read_certificates,
)

BROKERS = ("B1", "B2", "B3")
CLIENTS = ("client", OPERATOR)
SOON_DAYS = 30

_folder = click.Path(file_okay=False, path_type=Path)
_folder_argument = click.argument("folder", default="certs", type=_folder)
_broker_option = click.option(
    "--broker", "brokers", multiple=True, metavar="NAME", help="A broker's name; once for each."
)
_client_option = click.option(
    "--client", "clients", multiple=True, metavar="NAME", help="A client's name; once for each."
)
_host_option = click.option(
    *("--host", "hosts"),
    multiple=True,
    metavar="HOST",
    help="A name or an IP address at which clients reach these brokers, besides localhost.",
)
_days_option = click.option(
    *("--days", "days"),
    default=DAYS,
    show_default=True,
    type=click.IntRange(1, 3_650),
    help="For how long the certificates are valid.",
)


@click.group(short_help="Make and show certificates for TLS.")
def certs() -> None:
    """Make and show certificates for networks with TLS.

    \b
    Examples:
      runnel certs init                                   everything for brokers B1, B2 and B3 on this machine
      runnel certs init --broker B1 --host b1.example.org --client alice
      runnel certs add --broker B4                        one more, from the same authority
      runnel certs show

    \b
    With them (FOLDER is certs):
      b1.toml   [tls]
                certificate = "certs/B1.pem"
                key = "certs/B1.key"
                authority = "certs/authority.pem"
      shell     export RUNNEL_TLS_AUTHORITY=certs/authority.pem
                export RUNNEL_TLS_CERTIFICATE=certs/client.pem RUNNEL_TLS_KEY=certs/client.key
                runnel sub "symbol = 'YHOO'" --broker runnels://localhost:7001
    """


@certs.command("init")
@_folder_argument
@_broker_option
@_client_option
@_host_option
@_days_option
def init(
    folder: Path,
    brokers: tuple[str, ...],
    clients: tuple[str, ...],
    hosts: tuple[str, ...],
    days: int,
) -> None:
    """Make an authority and certificates for brokers and clients in FOLDER [default: certs].

    Without names it makes them for brokers B1, B2 and B3, a client and an operator. Private keys are readable by you
    alone; whoever has authority.key can make certificates for anybody, so keep it off the machines of brokers.
    Nothing is ever overwritten.

    \b
    Examples:
      runnel certs init
      runnel certs init --broker B1 --host b1.example.org --client alice

    \b
    Exit codes:
      0    they are made
      2    the command line cannot be used, or a file is there already; the message says which
    """
    make_authority(folder)
    make_certificates(folder, brokers or BROKERS, clients or CLIENTS, hosts, days)
    _show(folder)
    client = CertificateFolder(folder).tls((clients or CLIENTS)[0])
    click.echo(
        "for the programs of a client:\n"
        f"  export RUNNEL_TLS_AUTHORITY={client.authority}\n"
        f"  export RUNNEL_TLS_CERTIFICATE={client.certificate} RUNNEL_TLS_KEY={client.key}",
        err=True,
    )


@certs.command("add")
@_folder_argument
@_broker_option
@_client_option
@_host_option
@_days_option
def add(
    folder: Path,
    brokers: tuple[str, ...],
    clients: tuple[str, ...],
    hosts: tuple[str, ...],
    days: int,
) -> None:
    """Make more certificates, from the authority that runnel certs init has made in FOLDER [default: certs].

    To renew a certificate, move the old pair away first; then send the broker SIGHUP.

    \b
    Examples:
      runnel certs add --broker B4
      runnel certs add deployed/ --client bob --days 90

    \b
    Exit codes:
      0    they are made
      2    the command line cannot be used, there is no authority, or a file is there already; the message says which
    """
    if not (brokers or clients):
        raise click.UsageError("say for whom: --broker NAME or --client NAME")
    make_certificates(folder, brokers, clients, hosts, days)
    _show(folder)


@certs.command("show")
@_folder_argument
def show_certificates(folder: Path) -> None:
    """Show whom the certificates in FOLDER [default: certs] are for, and when they expire.

    \b
    Examples:
      runnel certs show
      runnel certs show deployed/

    \b
    Exit codes:
      0    all are valid
      1    one has expired
      2    there are none, or a file cannot be read
    """
    if _show(folder):
        raise SystemExit(1)


def _show(folder: Path) -> bool:
    """Show what is there; whether anything has expired."""
    words = ("file", "role", "name", "hosts", "expires", "")
    columns = ("file", "role", "name", "hosts", "expires", "days left", "")
    table = make_table(str(folder), *columns, words=words)
    found = read_certificates(folder)
    for one in found:
        left = one.days_left
        warning = "EXPIRED" if left < 0 else "renew it soon" if left < SOON_DAYS else ""
        hosts = "" if one.role == AUTHORITY else ", ".join(h for h in one.hosts if h != one.name)
        table.add_row(
            one.file.name,
            one.role,
            one.name,
            hosts,
            f"{one.expires:%Y-%m-%d}",
            str(left),
            warning,
        )
    show(table)
    return any(one.days_left < 0 for one in found)
