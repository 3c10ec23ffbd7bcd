"""Runnel: content-based publish/subscribe. A message is delivered because of what it says.

The names that most programs need are here; each room (`runnel.language`, `runnel.matching`, …) has the rest.
They are loaded when they are first used, so that the `runnel` program runs from its first moment on: whoever
interrupts it while it loads gets no traceback.

>>> from runnel import make_engine, parse
>>> engine = make_engine()
>>> engine.add(1, parse("symbol = 'YHOO' AND close < 20"))
>>> list(engine.match({"symbol": "YHOO", "close": 18.37}))
[1]
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runnel.client import blocking
    from runnel.client.aio import Client, State, connect
    from runnel.client.effects import Gap
    from runnel.client.events import Event
    from runnel.client.publisher import Publisher
    from runnel.client.subscription import Subscription
    from runnel.errors import (
        AccessDenied,
        AdvertisementRefused,
        ClientClosed,
        ConnectionFailed,
        InputError,
        MoveFailed,
        NetworkError,
        NoCredit,
        PublicationInDoubt,
        PublicationRefused,
        RoutesIncomplete,
        RunnelError,
        SubscriptionRefused,
    )
    from runnel.language import Disjunction, Filter, Limits, Op, Predicate, parse, to_padres, to_sql
    from runnel.matching import Engine, make_engine
    from runnel.net.loops import run
    from runnel.net.tls import Tls
    from runnel.version import __version__
else:
    _ROOMS = {
        "runnel.client": ("blocking",),
        "runnel.client.aio": ("Client", "State", "connect"),
        "runnel.client.effects": ("Gap",),
        "runnel.client.events": ("Event",),
        "runnel.client.publisher": ("Publisher",),
        "runnel.client.subscription": ("Subscription",),
        "runnel.errors": (
            "AccessDenied",
            "AdvertisementRefused",
            "ClientClosed",
            "ConnectionFailed",
            "InputError",
            "MoveFailed",
            "NetworkError",
            "NoCredit",
            "PublicationInDoubt",
            "PublicationRefused",
            "RoutesIncomplete",
            "RunnelError",
            "SubscriptionRefused",
        ),
        "runnel.language": (
            "Disjunction",
            "Filter",
            "Limits",
            "Op",
            "Predicate",
            "parse",
            "to_padres",
            "to_sql",
        ),
        "runnel.matching": ("Engine", "make_engine"),
        "runnel.net.loops": ("run",),
        "runnel.net.tls": ("Tls",),
        "runnel.version": ("__version__",),
    }
    _ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

    def __getattr__(name: str) -> object:
        """Load what is asked for; it is found at once from then on."""
        from importlib import import_module

        if name not in _ROOM_OF:
            raise AttributeError(f"module 'runnel' has no attribute {name!r}")
        room = import_module(_ROOM_OF[name])
        found = getattr(room, name, None) or import_module(f"{_ROOM_OF[name]}.{name}")
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_ROOM_OF})


__all__ = [
    "AccessDenied",
    "AdvertisementRefused",
    "Client",
    "ClientClosed",
    "ConnectionFailed",
    "Disjunction",
    "Engine",
    "Event",
    "Filter",
    "Gap",
    "InputError",
    "Limits",
    "MoveFailed",
    "NetworkError",
    "NoCredit",
    "Op",
    "Predicate",
    "PublicationInDoubt",
    "PublicationRefused",
    "Publisher",
    "RoutesIncomplete",
    "RunnelError",
    "State",
    "Subscription",
    "SubscriptionRefused",
    "Tls",
    "__version__",
    "blocking",
    "connect",
    "make_engine",
    "parse",
    "run",
    "to_padres",
    "to_sql",
]
