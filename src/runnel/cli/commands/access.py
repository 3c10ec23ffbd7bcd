"""`runnel access`: hashes of passwords, and what an access file allows whom."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from runnel.broker.permits import Permit
from runnel.cli.events import parse_event
from runnel.cli.filters import read_filter
from runnel.errors import InputError
from runnel.language import to_sql
from runnel.node.access.file import AccessRules, load_rules
from runnel.node.access.keeper import check_packages
from runnel.node.access.passwords import make_hash

_file = click.Path(dir_okay=False, path_type=Path)
FORBIDDEN = 1


@click.group(short_help="Passwords and rules: who may do what.")
def access() -> None:
    """Make and check the file that says who may do what at a broker.

    \b
    A user alice who may read stocks and publish one of them:
      runnel access hash                         asks for a password, prints its hash
      cat > access.toml
        [users.alice]
        password = "$argon2id$..."
        subscribe = ["class = 'STOCK'"]
        publish = ["class = 'STOCK' AND symbol = 'YHOO'"]
      runnel access check access.toml
      runnel access explain access.toml alice --subscribe "close < 20"

    The broker reads it where its configuration says so: [access] file = "access.toml". Commands say who they are with
    RUNNEL_USER, and RUNNEL_PASSWORD_FILE or RUNNEL_TOKEN_FILE.
    """


@access.command(name="hash")
def hash_() -> None:
    """Print the hash of a password, for `password` in an access file.

    It asks for the password; if stdin is no terminal, it reads it from there, to the end of the first line. There is
    no option for it: what is on a command line everybody on the machine can see.

    \b
    Examples:
      runnel access hash
      openssl rand -base64 18 | tee alice.password | runnel access hash

    \b
    Exit codes:
      0    the hash is printed
      1    the question was not answered
      2    the password cannot be used; the message says why
    """
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    click.echo(make_hash(password))


@access.command()
@click.argument("file", type=_file)
def check(file: Path) -> None:
    """Check an access file, and print what each user may do.

    \b
    Example:
      runnel access check access.toml

    \b
    Exit codes:
      0    a broker would take it
      2    it cannot be used; what is wrong is printed
    """
    rules = load_rules(file)
    check_packages(rules)
    for name, user in rules.users.items():
        click.echo(f"{name}, by {' or '.join(user.proofs)}")
        for line in _describe(user.permit):
            click.echo(f"  {line}")


@access.command()
@click.argument("file", type=_file)
@click.argument("user")
@click.option("--subscribe", metavar="FILTER", help="Whether it may subscribe to this.")
@click.option("--advertise", metavar="FILTER", help="Whether it may advertise this.")
@click.option(
    "--publish",
    metavar="EVENT",
    help='Whether it may publish this: "symbol=YHOO volume=3", or JSON.',
)
@click.option("--name", metavar="NAME", help="Whether a client of it may have this name.")
def explain(
    file: Path,
    user: str,
    subscribe: str | None,
    advertise: str | None,
    publish: str | None,
    name: str | None,
) -> None:
    """Say whether a user may do something, and by which rule it may not.

    \b
    Examples:
      runnel access explain access.toml alice --subscribe "class = 'STOCK' AND close < 20"
      runnel access explain access.toml alice --publish "class=STOCK symbol=YHOO"
      runnel access explain access.toml alice --name alice-7

    \b
    Exit codes:
      0    it may
      1    it may not
      2    the file or the command line cannot be used
    """
    permit = _permit_of(load_rules(file), user)
    reasons: dict[str, str] = {}
    if subscribe is not None:
        reasons["subscribe"] = permit.why_not_subscribe(read_filter(subscribe))
    if advertise is not None:
        reasons["advertise"] = permit.why_not_advertise(read_filter(advertise))
    if publish is not None:
        event = parse_event([publish])
        reasons["publish"] = "" if permit.may_publish(event) else permit.why_not_publish
    if name is not None:
        reasons["name"] = permit.why_not_named(name)
    if not reasons:
        raise InputError(
            "say what: --subscribe FILTER, --advertise FILTER, --publish EVENT or --name NAME"
        )
    for what, reason in reasons.items():
        click.echo(f"{what}: no: {reason}" if reason else f"{what}: yes")
    sys.exit(FORBIDDEN if any(reasons.values()) else 0)


def _permit_of(rules: AccessRules, user: str) -> Permit:
    found = rules.users.get(user)
    if found is None:
        raise InputError(f"there is no user {user!r}: {', '.join(rules.users)}")
    return found.permit


def _describe(permit: Permit) -> list[str]:
    """What a user may do, line by line."""
    quota = {key: getattr(permit.quota, key) for key in type(permit.quota).__dataclass_fields__}
    limits = ", ".join(f"{key} = {value:g}" for key, value in quota.items() if value)
    rules = {"subscribes to": permit.subscribe, "publishes": permit.publish}
    lines = [
        f"{what} {'nothing' if rule.is_contradiction else to_sql(rule)}"
        for what, rule in rules.items()
    ]
    lines.append(f"is called {', '.join(permit.names)}")
    lines.append(f"roles: {', '.join(sorted(permit.roles)) or 'none'}")
    return [*lines, f"quota: {limits or 'none'}"]
