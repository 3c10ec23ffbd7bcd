"""Runnel: content-based publish/subscribe. A message is delivered because of what it says.

The names that most programs need are here; each room (`runnel.language`, `runnel.matching`, …) has the rest.

>>> engine = make_engine()
>>> engine.add(1, parse("symbol = 'YHOO' AND close < 20"))
>>> list(engine.match({"symbol": "YHOO", "close": 18.37}))
[1]
"""

from runnel.client import blocking
from runnel.client.aio import Client, State, connect
from runnel.client.events import Event
from runnel.client.publisher import Publisher
from runnel.client.subscription import Subscription
from runnel.errors import (
    ClientClosed,
    ConnectionFailed,
    InputError,
    MoveFailed,
    NetworkError,
    NoCredit,
    PublicationInDoubt,
    RunnelError,
)
from runnel.language import Disjunction, Filter, Limits, Op, Predicate, parse, to_padres, to_sql
from runnel.matching import Engine, make_engine
from runnel.net.loops import run
from runnel.version import __version__

__all__ = [
    "Client",
    "ClientClosed",
    "ConnectionFailed",
    "Disjunction",
    "Engine",
    "Event",
    "Filter",
    "InputError",
    "Limits",
    "MoveFailed",
    "NetworkError",
    "NoCredit",
    "Op",
    "Predicate",
    "PublicationInDoubt",
    "Publisher",
    "RunnelError",
    "State",
    "Subscription",
    "__version__",
    "blocking",
    "connect",
    "make_engine",
    "parse",
    "run",
    "to_padres",
    "to_sql",
]
