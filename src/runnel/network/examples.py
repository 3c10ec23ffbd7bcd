"""Generated topologies, as the text of a file: a chain or a binary tree of brokers, with clients for stock quotes.

`examples/` in the project holds what these functions write, and `runnel up --example` prints it.
"""

from __future__ import annotations

from collections.abc import Callable

from runnel.workload.stocks import symbols

_HEAD = """\
# {title}
#   runnel up {file}                  start it, watch it, Ctrl-C ends it
#   runnel up {file} --until-done     end when everything is published, with a report
#   runnel up {file} --simulate       the same in the simulator, in a moment

# The first of a pair dials the second. Brokers form a tree.
links = [
{links}
]

# For every broker; any key of `runnel broker --example-config` can stand here or at one broker alone.
[defaults]
log = {{ level = "info", format = "text" }}

"""
_FIRST = """\
port = 7001  # the default of all commands
admin = { listen = "127.0.0.1:7101" }  # for operators, and metrics: curl http://127.0.0.1:7101/metrics"""
_CLIENTS_HEAD = """
# Clients start in the order of start_s; nobody publishes before those that start no later are ready.
"""
_PUBLISHER = """
[[clients]]
name = "quotes-{symbol}"
broker = "{broker}"
start_s = 1
publish = {{ advertise = "class = 'STOCK' AND symbol = '{symbol}'", rate_per_s = 50, count = 500, payload_bytes = 100 }}
"""
_SUBSCRIBER = """
[[clients]]
name = "{name}"
broker = "{broker}"
subscribe = [{filters}]
"""
_THRESHOLDS = (90_000, 15_000_000, 50_000)  # each divides the quotes of one stock into two halves


def chain(count: int) -> str:
    """So many brokers in a row: publishers at one end, subscribers along the way."""
    names = _names(count)
    links = [(names[n], names[n + 1]) for n in range(count - 1)]
    return _write(f"A chain of {count} brokers.", f"chain{count}.toml", names, links)


def tree(count: int) -> str:
    """So many brokers in a binary tree: publishers and subscribers at the leaves."""
    names = _names(count)
    links = [(names[n], names[(n - 1) // 2]) for n in range(1, count)]
    return _write(f"A tree of {count} brokers.", f"tree{count}.toml", names, links)


EXAMPLES: dict[str, Callable[[], str]] = {
    "chain3": lambda: chain(3),
    "tree7": lambda: tree(7),
}


def _names(count: int) -> list[str]:
    return [f"B{number + 1}" for number in range(count)]


def _write(title: str, file: str, names: list[str], links: list[tuple[str, str]]) -> str:
    joined = "\n".join(f'  ["{one}", "{other}"],' for one, other in links)
    text = _HEAD.format(title=title, file=file, links=joined)
    for number, name in enumerate(names):
        where = _FIRST if number == 0 else "# any free port"
        text += f"[brokers.{name}]\n{where}\n\n"
    text = text.rstrip("\n") + "\n" + _CLIENTS_HEAD
    quoted = symbols(3)
    for number, symbol in enumerate(quoted):
        text += _PUBLISHER.format(symbol=symbol, broker=names[-1 - number % len(names)])
    for number, name in enumerate(names):
        symbol = quoted[number % len(quoted)]
        filters = [f"class = 'STOCK' AND symbol = '{symbol}'"]
        if number % 2:
            filters.append(f"volume > {_THRESHOLDS[number // 2 % 3]}")
        listed = ", ".join(f'"{text}"' for text in filters)
        text += _SUBSCRIBER.format(name=f"watcher-{name}", broker=name, filters=listed)
    return text
