"""A campaign: each seed determines everything that happens in one run, as data.

A plan can be printed, shortened (`shrink.py`) and run again: each operation and fault has a random number of its own
for its choices, so leaving one out does not change the others. `run.py` carries a plan out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from msgspec import Struct

from runnel.broker.config import BrokerConfig
from runnel.broker.links import LinkConfig
from runnel.compose import BrokerSpec, strategy_kind
from runnel.modules.placement.config import Algorithm, PlacementConfig
from runnel.quantities import MILLISECOND
from runnel.sim.model import Tree
from runnel.sim.resources import Resources

HEARTBEAT_NS = 200 * MILLISECOND
RESUME_TIMEOUT_NS = 1_500 * MILLISECOND
LOCKSTEP_BYTES = 1  # a window in which one frame flies at a time
REFINING_CLIENTS = 6  # in each round in which there are any

OPERATIONS = {
    "publish": 34,
    "stream": 10,
    "subscribe": 14,
    "unsubscribe": 7,
    "advertise": 6,
    "unadvertise": 2,
    "ready": 6,
    "move": 9,
    "migrate": 9,
    "reconnect": 2,
    "close": 2,
    "die": 1,
    "open": 6,
}
NARROW_OPERATIONS = OPERATIONS | {
    "stream": 40,
    "move": 25,
    "migrate": 25,
    "subscribe": 20,
    "unsubscribe": 20,
}
MODULES = ("generations", "migration")
"""What every broker of a campaign has; `Settings.more_modules` adds to it."""

HEALING_FAULTS = ("cut", "reset", "half-open", "crash", "slow", "delay")
FAULTS = (*HEALING_FAULTS, "gone")


@dataclass(frozen=True, slots=True)
class Operation:
    """What a client does, and when in the round."""

    at: int
    client: str
    kind: str
    pick: int  # what its choices are drawn from


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, when in the round and for how long."""

    at: int
    kind: str
    pick: int
    length_ns: int


@dataclass(frozen=True, slots=True)
class Replan:
    """When in the round a switch to another network begins, and the random number for its choices."""

    at: int
    pick: int


@dataclass(frozen=True, slots=True)
class SimulationRound:
    """One round: the operations of clients, and the faults. After it all faults end."""

    length_ns: int
    operations: tuple[Operation, ...]
    faults: tuple[Fault, ...]
    switch: Replan | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What is the same for all brokers of a run."""

    strategy: str
    covering: bool
    advertisements: bool
    window_bytes: int
    queue_bytes_max: int
    client_queue_bytes_max: int
    credit_max: int
    latency_ns_max: int
    bytes_per_second: int
    resources: Resources
    placement: PlacementConfig
    rest_ns: int  # how long a publisher that was placed is not moved again
    lopsided: bool  # the two directions of a wire have different latencies
    more_modules: tuple[tuple[str, Struct | None], ...] = ()
    """Modules beyond MODULES by name, with their settings if these are not the defaults."""

    @property
    def routing(self) -> Struct:
        """The settings of the strategy: both switches, where it has them."""
        settings = strategy_kind(self.strategy).settings
        switches = {"covering": self.covering, "advertisements": self.advertisements}
        fields = settings.__struct_fields__
        return settings(**{name: value for name, value in switches.items() if name in fields})

    def link(self, queue_bytes_max: int) -> LinkConfig:
        """The limits of a link with this cap."""
        return LinkConfig(HEARTBEAT_NS, RESUME_TIMEOUT_NS, self.window_bytes, queue_bytes_max)

    def broker(
        self,
        name: str,
        dials: tuple[str, ...],
        accepts: tuple[str, ...],
        generation: int,
        *,
        tell_stories: bool,
    ) -> BrokerSpec:
        """The specification of one broker; a module that places publishers only where one is drawn."""
        core = BrokerConfig(
            name,
            dials,
            accepts,
            link=self.link(self.queue_bytes_max),
            client_link=self.link(self.client_queue_bytes_max),
            credit_max=self.credit_max,
            credit_min=min(4, self.credit_max),
            congested_bytes=self.queue_bytes_max // 4,
            lease_ns=2 * RESUME_TIMEOUT_NS,
            rest_ns=self.rest_ns,
            tell_stories=tell_stories,
            generation=generation,
        )
        modules = dict.fromkeys(MODULES) | dict(self.more_modules)
        if self.placement.algorithm != "off":
            modules["placement"] = self.placement
        given = {name: settings for name, settings in modules.items() if settings is not None}
        return BrokerSpec(core, self.strategy, self.routing, tuple(modules), given)


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Everything that determines a run."""

    seed: int
    edges: tuple[tuple[str, str], ...]  # who dials, who is dialled
    brokers: tuple[str, ...]
    settings: Settings
    rounds: tuple[SimulationRound, ...]

    @property
    def tree(self) -> Tree:
        """The overlay."""
        return Tree(list(self.edges), list(self.brokers))

    @property
    def size(self) -> int:
        """How many operations and faults there are."""
        return sum(len(r.operations) + len(r.faults) for r in self.rounds)


def draw_plan(seed: int) -> SimulationPlan:
    """What happens under a seed.

    >>> draw_plan(7) == draw_plan(7), 2 <= len(draw_plan(7).brokers) <= 40
    (True, True)
    """
    random = Random(seed)
    count = random.choice((2, 3, 3, 4, 5, 6, 7, 8, 10, 12, random.randint(13, 40)))
    brokers = tuple(f"B{n}" for n in range(1, count + 1))
    edges = []
    for n in range(1, count):
        other = brokers[random.randrange(max(0, n - 6), n)]
        edges.append((brokers[n], other) if random.random() < 0.5 else (other, brokers[n]))
    settings = draw_settings(random)
    clients = [f"c{n}" for n in range(random.randint(2, 12))]
    weights = OPERATIONS
    if random.random() < 0.2:
        settings, weights = narrow(random, settings), NARROW_OPERATIONS
    rounds = tuple(
        draw_round(random, clients, weights, n == 0) for n in range(random.randint(1, 3))
    )
    # What was added later is drawn from generators of its own, so that the rest of a seed's plan has not changed.
    settings = replace(settings, lopsided=Random(f"{seed}/lopsided").random() < 0.2)
    settings = overload(Random(f"{seed}/overloaded"), settings)
    rounds = add_gone_broker(Random(f"{seed}/gone"), rounds)
    if settings.covering and settings.window_bytes == LOCKSTEP_BYTES:
        refining = Random(f"{seed}/refining")
        rounds = tuple(add_refining_clients(refining, clients, round) for round in rounds)
    return SimulationPlan(seed, tuple(edges), brokers, settings, rounds)


def overload(random: Random, settings: Settings) -> Settings:
    """In some runs brokers match so slowly that publications wait for it."""
    if random.random() < 0.9:
        return settings
    match_ns_base = random.choice((1, 5, 20)) * MILLISECOND
    return replace(settings, resources=replace(settings.resources, match_ns_base=match_ns_base))


def add_gone_broker(
    random: Random, rounds: tuple[SimulationRound, ...]
) -> tuple[SimulationRound, ...]:
    """In some runs a broker crashes in the last round and stays away for ever.

    Not if there is a switch in that round: a switch would wait for the broker for ever.
    """
    *before, last = rounds
    if last.switch is not None or random.random() < 0.5:
        return rounds
    gone = Fault(random.randrange(last.length_ns), "gone", random.getrandbits(48), 0)
    return (*before, replace(last, faults=(*last.faults, gone)))


def add_refining_clients(
    random: Random, clients: list[str], round: SimulationRound
) -> SimulationRound:
    """Clients that withdraw what has kept back another subscription of theirs, while that one's publisher publishes.

    Publications that fall between the two messages of one withdrawal are rare, and there are any only where frames go
    one by one.
    """
    refining = [
        Operation(
            random.randrange(round.length_ns // 8, round.length_ns),
            random.choice(clients),
            "refine",
            random.getrandbits(48),
        )
        for _ in range(REFINING_CLIENTS)
    ]
    operations = sorted((*round.operations, *refining), key=lambda operation: operation.at)
    return replace(round, operations=tuple(operations))


def narrow(random: Random, settings: Settings) -> Settings:
    """Long queues that nothing is dropped from, on slow wires: this shows messages that overtake others."""
    lockstep = random.random() < 0.5  # frame by frame, which shows a wrong order
    return replace(
        settings,
        window_bytes=LOCKSTEP_BYTES if lockstep else 300,
        latency_ns_max=4 * MILLISECOND if lockstep else settings.latency_ns_max,
        queue_bytes_max=1 << 26,
        client_queue_bytes_max=1 << 23,
        credit_max=1_024,
        bytes_per_second=random.choice((5_000, 20_000)),
        resources=Resources(),
    )


def draw_settings(random: Random) -> Settings:
    """Draw limits; in some runs they are so small that they are reached."""
    resources = Resources()
    if random.random() < 0.3:
        resources = Resources(
            match_ns_each=random.randrange(20_000),
            match_ns_base=random.randrange(200_000),
            output_bytes_per_second=random.choice((0, 50_000, 500_000)),
            memory_bytes=1 << 30,
        )
    return Settings(
        strategy="tree",
        covering=random.random() < 0.6,
        advertisements=random.random() < 0.8,
        window_bytes=random.choice((300, 1_000, 5_000, 1 << 20)),
        queue_bytes_max=random.choice((6_000, 20_000, 1 << 26, 1 << 26)),
        client_queue_bytes_max=random.choice((1_000, 3_000, 1 << 23)),
        credit_max=random.choice((4, 16, 1_024)),
        latency_ns_max=random.choice((1, 20, 80)) * MILLISECOND,
        bytes_per_second=random.choice((0, 0, 10_000, 100_000)),
        resources=resources,
        placement=draw_placement(random),
        rest_ns=random.choice((1, 100, 1_000)) * MILLISECOND,
        lopsided=False,
    )


def draw_placement(random: Random) -> PlacementConfig:
    """In half of the runs publishers are placed, after so few publications that it happens again and again."""
    algorithms: tuple[Algorithm, ...] = ("off", "off", "pop", "grape")
    return PlacementConfig(
        random.choice(algorithms),
        n=random.choice((5, 50)),
        w_s=0.5,
        p_threshold=random.choice((2, 5)),
        damping=random.choice((0.0, 0.0, 1.0)),
        metric=random.choice(("load", "delay")),
        weight_percent=random.choice((1.0, 50.0, 100.0)),
        g_threshold=random.choice((2, 5, 12)),
        gain_percent_min=random.choice((0.0, 5.0)),
        ping_samples=2,
        ping_every_s=random.choice((0.2, 5.0)),
        answer_timeout_s=random.choice((0.3, 2.0)),
    )


def draw_round(
    random: Random, clients: list[str], operation_weights: dict[str, int], first: bool
) -> SimulationRound:
    """Operations of all kinds, and faults in most rounds."""
    length = random.randint(1_500, 4_000) * MILLISECOND
    operations = []
    if first:
        for client in clients:
            at = random.randrange(length // 8)
            operations.append(Operation(at, client, "open", random.getrandbits(48)))
            for kind in ("subscribe", "advertise"):
                if random.random() < 0.7:
                    at = random.randrange(length // 3)
                    operations.append(Operation(at, client, kind, random.getrandbits(48)))
    kinds, weights = list(operation_weights), list(operation_weights.values())
    for kind in random.choices(kinds, weights, k=random.randint(20, 160)):
        at = random.randrange(length)
        operations.append(Operation(at, random.choice(clients), kind, random.getrandbits(48)))
    operations.sort(key=lambda operation: operation.at)
    faults = [draw_fault(random, length) for _ in range(random.choice((0, 1, 2, 3, 4, 6)))]
    switch = None
    if random.random() < 0.4:
        switch = Replan(random.randrange(length // 4, length), random.getrandbits(48))
    return SimulationRound(length, tuple(operations), tuple(faults), switch)


def draw_fault(random: Random, length: int) -> Fault:
    """A fault of any kind. A cut ends well before a link is given up; a reset after, or just then."""
    kind = random.choice(HEALING_FAULTS)
    shortest, longest = {
        "cut": (1, RESUME_TIMEOUT_NS // 3),
        "reset": random.choice(
            (
                (RESUME_TIMEOUT_NS + 2 * HEARTBEAT_NS, 2 * RESUME_TIMEOUT_NS),
                (RESUME_TIMEOUT_NS - HEARTBEAT_NS, RESUME_TIMEOUT_NS),  # in the nick of time
            )
        ),
        "half-open": (HEARTBEAT_NS, 2 * RESUME_TIMEOUT_NS),
        "crash": (1, 2 * RESUME_TIMEOUT_NS),
        "slow": (HEARTBEAT_NS, 5 * HEARTBEAT_NS // 2),
        "delay": (HEARTBEAT_NS // 4, 2 * HEARTBEAT_NS),
    }[kind]
    at = random.randrange(length)
    return Fault(at, kind, random.getrandbits(48), random.randint(shortest, longest))
