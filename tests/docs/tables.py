"""Tables in documents: what each strategy and module brings, every message and every metric that there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runnel.broker.module import Module, ModuleKind, Surroundings
from runnel.lab.criteria import WORDS
from runnel.modules.generations.questions import OpenGeneration
from runnel.node.metrics import METRICS
from runnel.routing.strategy import StrategyKind
from runnel.wire import REGISTRY, Message, Way

TEST_TAG_MIN = 240


def modules_table(kinds: Mapping[str, ModuleKind]) -> str:
    """Every module, with all that it declares."""
    return _table(
        ("module", "what it does", "settings", "messages that it takes", "timers", "questions"),
        (_module_row(kind, [*_make_modules(kind)]) for kind in kinds.values()),
    )


def _module_row(kind: ModuleKind, modules: list[Module]) -> tuple[str, ...]:
    return (
        f"`{kind.name}`",
        kind.purpose,
        "" if kind.settings is None else f"`[{kind.name}]`",
        _names(message.__name__ for module in modules for message in module.messages),
        _names(timer for module in modules for timer in module.timers),
        _names(asked.asked_as for module in modules for asked in module.answers()),
    )


def _make_modules(kind: ModuleKind) -> Iterable[Module]:
    around = Surroundings("B", services={"hosting": None, "place": OpenGeneration(1)})
    return kind.make(around, kind.settings() if kind.settings is not None else None)


def strategies_table(kinds: Mapping[str, StrategyKind]) -> str:
    """Every strategy, with its settings."""
    return _table(
        ("strategy", "what it does", "settings"),
        (
            (f"`{kind.name}`", kind.purpose, _names(kind.settings.__struct_fields__))
            for kind in kinds.values()
        ),
    )


def messages_table() -> str:
    """Every message but those of tests, in the order of their tags."""
    rows = sorted((REGISTRY.tag(kind), kind) for kind in REGISTRY.messages)
    return _table(
        ("tag", "message", "lane", "ways", "defined in"),
        (
            (
                str(tag),
                f"`{kind.__name__}`",
                REGISTRY.lane(kind).value,
                _ways(kind),
                f"`{kind.__module__}`",
            )
            for tag, kind in rows
            if tag < TEST_TAG_MIN
        ),
    )


def _ways(kind: type[Message]) -> str:
    ways = REGISTRY.ways(kind)
    if ways == Way.ALL:
        return "all"
    return ", ".join(str(way.name).lower().replace("_", " ") for way in ways)


def metrics_table() -> str:
    """Every metric, in the order of the page."""
    return _table(
        ("metric", "type", "what it says"),
        ((f"`{metric.name}`", metric.kind, metric.purpose) for metric in METRICS),
    )


def words_table() -> str:
    """Every word of the papers by which a claim is judged."""
    return _table(
        ("the paper's word", "what it means"),
        ((f"“{word}”", meaning) for word, (meaning, _) in WORDS.items()),
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
