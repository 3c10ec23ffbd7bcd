"""The strategy `tree`: advertisements are flooded, subscriptions go back along them, publications follow these.

strategy  the tables' rules, with covering
at_rest   what every broker must know at rest, recomputed from scratch: the oracle of the tests
"""

from runnel.routing.strategy import StrategyKind
from runnel.routing.tree.at_rest import TreeAtRest
from runnel.routing.tree.strategy import TreeConfig, TreeRouting


def _at_rest(config: TreeConfig) -> TreeAtRest:
    return TreeAtRest(covering=config.covering, advertisements=config.advertisements)


TREE = StrategyKind(
    name="tree",
    purpose="advertisement-based routing on a tree, with covering",
    settings=TreeConfig,
    make=TreeRouting,
    at_rest=_at_rest,
)

__all__ = ["TREE", "TreeAtRest", "TreeConfig", "TreeRouting"]
