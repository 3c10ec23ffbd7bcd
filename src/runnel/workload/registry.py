"""Makes workloads by name, for scenarios and others.

    stocks   the quotes and subscriptions of balance, placement or green: `templates` says which
    zipf     the synthetic data sets of mesh
    social   users who subscribe to what their friends do
    churn    any of the others, with subscribers that come and go
    events   any file of events

`parameters_of` lists what each takes. One name, one table of parameters and one seed give one workload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from runnel.errors import InputError
from runnel.workload.balance import BalanceParameters, make_balance
from runnel.workload.churn import ChurnParameters, make_churn
from runnel.workload.events import EventsParameters, make_events
from runnel.workload.green import GreenParameters, make_green
from runnel.workload.parameters import Parameters, read_parameters
from runnel.workload.placement import PlacementParameters, make_placement
from runnel.workload.shape import Workload
from runnel.workload.social import SocialParameters, make_social
from runnel.workload.zipf import ZipfParameters, make_zipf

NAMES = ("stocks", "zipf", "social", "churn", "events")
TEMPLATES = ("balance", "placement", "green")


class _Kind(NamedTuple):
    """The parameters of a kind of workload, and the function that makes it."""

    shape: type[Parameters]
    make: Callable[[Any, int, Path], Workload]


def make_workload(
    name: str, parameters: Mapping[str, Any] | None = None, seed: int = 1, folder: Path = Path()
) -> Workload:
    """Make a workload; an error names the key. Files that parameters name are looked for in `folder`.

    >>> green = make_workload("stocks", {"templates": "green", "per_publisher": 50})
    >>> len(green.publishers), len(green.subscribers), round(green.rate_per_s, 1)
    (40, 2000, 46.7)
    """
    table = dict(parameters or {})
    kind = _find(name, table)
    return kind.make(read_parameters(kind.shape, table), seed, folder)


def parameters_of(name: str, templates: str = "balance") -> dict[str, Any]:
    """The parameters of a workload with their defaults; None for a key that must be given.

    >>> parameters_of("churn")["joins_per_min"]
    60.0
    """
    table = {"templates": templates} if name == "stocks" else {}
    fields = msgspec.structs.fields(_find(name, table).shape)
    return {field.name: _default(field) for field in fields}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


def _find(name: str, table: dict[str, Any]) -> _Kind:
    """The kind of workload of this name; `templates` is taken out of the table where it decides."""
    if name == "stocks":
        templates = table.pop("templates", TEMPLATES[0])
        kinds = {
            "balance": _Kind(BalanceParameters, make_balance),
            "placement": _Kind(PlacementParameters, make_placement),
            "green": _Kind(GreenParameters, make_green),
        }
        if not isinstance(templates, str) or templates not in kinds:
            raise InputError(f"templates: must be one of {', '.join(TEMPLATES)}, got {templates!r}")
        return kinds[templates]
    kinds = {
        "zipf": _Kind(ZipfParameters, make_zipf),
        "social": _Kind(SocialParameters, make_social),
        "churn": _Kind(ChurnParameters, _churn),
        "events": _Kind(EventsParameters, make_events),
    }
    if name not in kinds:
        raise InputError(f"there is no workload {name!r}; there are {', '.join(NAMES)}")
    return kinds[name]


def _churn(parameters: ChurnParameters, seed: int, folder: Path) -> Workload:
    """Churn is based on another workload, which only the registry can make."""
    if parameters.of == "churn":
        raise InputError("of: must be a workload other than churn")
    try:
        base = make_workload(parameters.of, parameters.parameters, seed, folder)
    except InputError as error:
        raise InputError(f"churn of {parameters.of}: {error}") from None
    return make_churn(parameters, base, seed)
