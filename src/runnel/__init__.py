"""Runnel: content-based publish/subscribe. A message is delivered because of what it says.

The names that most programs need are here; each room (`runnel.language`, `runnel.matching`, …) has the rest.

>>> engine = make_engine()
>>> engine.add(1, parse("symbol = 'YHOO' AND close < 20"))
>>> list(engine.match({"symbol": "YHOO", "close": 18.37}))
[1]
"""

from runnel.errors import InputError, RunnelError
from runnel.language import Disjunction, Filter, Limits, Op, Predicate, parse, to_padres, to_sql
from runnel.matching import Engine, make_engine
from runnel.version import __version__

__all__ = [
    "Disjunction",
    "Engine",
    "Filter",
    "InputError",
    "Limits",
    "Op",
    "Predicate",
    "RunnelError",
    "__version__",
    "make_engine",
    "parse",
    "to_padres",
    "to_sql",
]
