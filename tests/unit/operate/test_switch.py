"""The coordinator, phase by phase, with reports made by hand: brokers obey at once, clients when a test says so."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from runnel.modules.generations.module import ClientReport, GenerationReport
from runnel.modules.generations.questions import CloseGeneration, OpenGeneration, SetGoal
from runnel.operate.switch import Intent, Phase, Place, Switch, SwitchOrder
from runnel.wire import Stage

OLD, BOTH, AHEAD, NEW = Stage
BROKERS = ("A", "B", "C")
INTENT = Intent(
    old=4,
    new=5,
    addresses={"A": "at A", "B": "at B", "C": "at C"},
    dials={"A": (), "B": ("A",)},  # C has no place in the new network
    homes={"p": "B"},
    default="A",
)


def client(stage: Stage = OLD, *, publishes: bool = False, is_settled: bool = True) -> ClientReport:
    return ClientReport(True, publishes, stage, is_settled)


class Brokers:
    """What the brokers would report. They carry out orders at once; the new generation has its links at once."""

    def __init__(self, intent: Intent = INTENT) -> None:
        self.intent = intent
        self.reports: dict[Place, GenerationReport] = {}
        for broker in intent.addresses:
            self.start(broker, intent.old)

    def start(self, broker: str, generation: int) -> None:
        """A broker without memory."""
        address = self.intent.addresses[broker]
        links = list(self.intent.dials.get(broker, ())) if generation == self.intent.new else []
        place = Place(broker, generation)
        self.reports[place] = GenerationReport(broker, address, generation, 0, 0, OLD, links, {})

    def change(self, broker: str, generation: int, **change: object) -> None:
        place = Place(broker, generation)
        self.reports[place] = msgspec.structs.replace(self.reports[place], **change)

    def clients(self, broker: str, generation: int = 4, /, **clients: ClientReport) -> None:
        """Who is there from now on."""
        self.change(broker, generation, clients=clients)

    def step(self, switch: Switch) -> list[SwitchOrder]:
        """Ask all, and let them do what they are told; what that was."""
        orders = switch.next_orders({place: self.reports.get(place) for place in switch.places})
        for (broker, generation), command in orders:
            match command:
                case OpenGeneration():
                    self.start(broker, command.generation)
                case SetGoal(generation=about, version=version, stage=stage):
                    self.change(broker, generation, about=about, version=version, stage=stage)
                case CloseGeneration():
                    del self.reports[Place(broker, command.generation)]
        return orders

    def go_on(self, switch: Switch, until: Phase) -> list[SwitchOrder]:
        """Until a phase is reached; all that was told on the way."""
        told: list[SwitchOrder] = []
        for _ in range(10):
            told += self.step(switch)
            if switch.phase is until:
                return told
        raise AssertionError(f"{switch.phase} for ever: {switch.waits_for}")


def goals(orders: list[SwitchOrder]) -> list[SetGoal]:
    return [order.command for order in orders if isinstance(order.command, SetGoal)]


def stages(orders: list[SwitchOrder]) -> list[int]:
    return [goal.stage for goal in goals(orders)]


def switch_at(phase: Phase) -> tuple[Switch, Brokers]:
    """A switch that has come so far, with one publisher, p, and one other client, s."""
    switch, brokers = Switch(INTENT), Brokers()
    brokers.clients("C", p=client(publishes=True), s=client())
    order = [Phase.OPENING, Phase.JOINING, Phase.CROSSING, Phase.LEAVING, Phase.CLOSING]
    for now, then in pairwise(order):
        if phase is now:
            break
        stage = {Phase.CROSSING: BOTH, Phase.LEAVING: AHEAD}.get(then, OLD)
        brokers.clients("C", p=client(stage, publishes=True), s=client(stage))
        if then is Phase.CLOSING:
            brokers.clients("C")
        brokers.go_on(switch, then)
    return switch, brokers


# -- opening --------------------------------------------------------------------------------------------


def test_every_process_opens_the_new_generation_and_learns_its_neighbours() -> None:
    orders = Brokers().step(Switch(INTENT))
    reserve = {"C": "at C"}
    assert orders == [
        SwitchOrder(Place("A", 4), OpenGeneration(5, {}, reserve=reserve, accepts=("B",))),
        SwitchOrder(Place("B", 4), OpenGeneration(5, {"A": "at A"}, reserve=reserve, accepts=())),
        SwitchOrder(Place("C", 4), OpenGeneration(5, standby="at A", reserve=reserve, accepts=())),
    ]


def test_nobody_joins_before_the_links_are_up() -> None:
    switch, brokers = Switch(INTENT), Brokers()
    brokers.step(switch)
    brokers.change("B", 5, links=[])
    for _ in range(3):
        assert brokers.step(switch) == []
        assert switch.phase is Phase.OPENING
        assert switch.waits_for == ["B has no link to A yet"]
    brokers.change("B", 5, links=["A"])
    assert set(stages(brokers.go_on(switch, Phase.JOINING))) == {OLD, BOTH}


def test_nobody_joins_before_all_processes_have_it() -> None:
    switch, brokers = Switch(INTENT), Brokers()
    del brokers.reports[Place("C", 4)]
    for _ in range(3):
        brokers.step(switch)
        assert switch.phase is Phase.OPENING
        assert "C has no generation 5 yet" in switch.waits_for
    brokers.start("C", 4)
    brokers.go_on(switch, Phase.JOINING)


def test_all_know_who_is_to_live_where_before_anybody_is_to_join() -> None:
    switch, brokers = Switch(INTENT), Brokers()
    brokers.clients("C", p=client(), s=client())
    told = brokers.go_on(switch, Phase.JOINING)
    assert stages(told) == [OLD] * 6 + [BOTH] * 6
    to_c = [order.command for order in told if order.to == Place("C", 4)][1:]
    assert isinstance(to_c[0], SetGoal)
    assert to_c[0].addresses == {"p": "at B", "s": "at A"}
    assert to_c[0].address == "at A", "for whoever comes later"


def test_a_broker_that_does_not_hear_the_order_is_told_again() -> None:
    switch, brokers = switch_at(Phase.JOINING)
    brokers.change("B", 5, version=0, about=0, stage=0)
    brokers.clients("C", p=client(BOTH, publishes=True))
    orders = brokers.step(switch)
    assert [order.to for order in orders] == [Place("B", 5)]
    assert switch.phase is Phase.JOINING


# -- joining and crossing -------------------------------------------------------------------------------


def test_nobody_crosses_before_all_have_joined() -> None:
    switch, brokers = switch_at(Phase.JOINING)
    brokers.clients("C", p=client(BOTH, publishes=True), s=client(OLD))
    assert brokers.step(switch) == []
    assert switch.phase is Phase.JOINING
    assert switch.waits_for == ["s at C has not got so far"]
    brokers.clients("C", p=client(BOTH, publishes=True), s=client(BOTH))
    told = goals(brokers.step(switch))
    assert switch.phase is Phase.CROSSING
    assert {(goal.stage, *goal.stages.items()) for goal in told} == {(BOTH, ("p", AHEAD))}


@pytest.mark.parametrize("wave", [1, 2, 5])
def test_at_most_a_wave_of_publishers_crosses_at_a_time(wave: int) -> None:
    switch, brokers = Switch(INTENT, wave), Brokers()
    stage = {f"p{n}": BOTH for n in range(7)}

    def are_there() -> None:
        told = switch._goal.stages
        there = {
            name: client(at, publishes=True, is_settled=told.get(name, BOTH) == at)
            for name, at in stage.items()
        }
        brokers.clients("C", **there)

    are_there()
    brokers.go_on(switch, Phase.CROSSING)
    are_there()
    waves, latest = 1, goals(brokers.step(switch))
    crossing = [name for name in stage if name in switch._goal.stages]
    while set(stage.values()) != {AHEAD}:
        assert latest == [], "those under way come first"
        under_way = [n for n in crossing if stage[n] == BOTH]
        assert 0 < len(under_way) <= wave
        stage |= dict.fromkeys(under_way, AHEAD)
        are_there()
        (goal, *_) = goals(brokers.step(switch))
        crossing, waves = list(goal.stages), waves + 1
        are_there()
        latest = goals(brokers.step(switch)) if goal.stage == BOTH else []
    assert waves - 1 == -(-7 // wave)
    assert (goal.stage, goal.stages) == (AHEAD, {}), "then everybody else"


def test_one_who_comes_late_is_waited_for_before_more_cross() -> None:
    switch, brokers = switch_at(Phase.CROSSING)
    brokers.clients("C", p=client(AHEAD, publishes=True), q=client(OLD, publishes=True))
    assert brokers.step(switch) == []
    assert switch.waits_for == ["q at C has not got so far"]


def test_everybody_has_crossed_before_anybody_leaves() -> None:
    switch, brokers = switch_at(Phase.CROSSING)
    brokers.clients("C", p=client(AHEAD, publishes=True), s=client(BOTH))
    assert set(stages(brokers.step(switch))) == {AHEAD}
    assert brokers.step(switch) == []
    assert switch.phase is Phase.CROSSING
    brokers.clients("C", p=client(AHEAD, publishes=True), s=client(AHEAD))
    assert set(stages(brokers.step(switch))) == {NEW}
    assert switch.phase is Phase.LEAVING


# -- leaving and closing --------------------------------------------------------------------------------


def test_the_old_generation_ends_when_nobody_is_there() -> None:
    switch, brokers = switch_at(Phase.LEAVING)
    assert brokers.step(switch) == []
    assert switch.waits_for == ["p is still at C", "s is still at C"]
    brokers.clients("C")
    assert brokers.step(switch) == [
        SwitchOrder(Place(broker, 5), CloseGeneration(4)) for broker in BROKERS
    ]
    assert switch.phase is Phase.CLOSING
    assert brokers.step(switch) == []
    assert switch.phase is Phase.DONE


def test_it_is_done_only_when_every_process_has_just_the_new_one() -> None:
    switch, brokers = switch_at(Phase.CLOSING)
    brokers.start("B", 4)  # drains yet
    assert brokers.step(switch) == [SwitchOrder(Place("B", 5), CloseGeneration(4))]
    assert switch.phase is Phase.CLOSING
    del brokers.reports[Place("C", 5)]
    brokers.step(switch)
    assert switch.phase is Phase.CLOSING
    assert "C does not answer" in switch.waits_for


def test_a_process_that_starts_anew_at_the_end_gets_the_new_generation_first() -> None:
    switch, brokers = switch_at(Phase.CLOSING)
    del brokers.reports[Place("B", 5)]
    brokers.start("B", 4)
    (order,) = brokers.step(switch)
    assert order.to == Place("B", 4) and isinstance(order.command, OpenGeneration)
    brokers.go_on(switch, Phase.DONE)
    assert list(brokers.reports) == [Place(broker, 5) for broker in "ACB"]


def test_one_who_comes_to_the_old_generation_at_the_end_is_waited_for() -> None:
    switch, brokers = switch_at(Phase.CLOSING)
    brokers.start("B", 4)
    brokers.clients("B", late=client())
    orders = brokers.step(switch)
    assert switch.phase is Phase.LEAVING
    assert [order.to for order in orders] == [Place("B", 4)] and stages(orders) == [NEW]


# -- lost memory, lost coordinators ---------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.JOINING, Phase.CROSSING, Phase.LEAVING])
def test_a_broker_that_lost_its_memory_is_told_again(phase: Phase) -> None:
    switch, brokers = switch_at(phase)
    before = brokers.reports[Place("B", 4)]
    del brokers.reports[Place("B", 5)]
    brokers.start("B", 4)
    orders = brokers.step(switch)
    assert {(order.to, type(order.command)) for order in orders} == {
        (Place("B", 4), OpenGeneration),
        (Place("B", 4), SetGoal),
    }
    (goal,) = goals(orders)
    assert (goal.version, goal.stage) == (before.version, before.stage)
    assert [order.to for order in brokers.step(switch)] == [Place("B", 5)]


@pytest.mark.parametrize("phase", [Phase.JOINING, Phase.CROSSING, Phase.LEAVING, Phase.CLOSING])
def test_another_coordinator_goes_on_where_the_first_was(phase: Phase) -> None:
    lost, brokers = switch_at(phase)
    version = max(report.version for report in brokers.reports.values())
    switch = Switch(INTENT)
    for goal in goals(brokers.step(switch)):
        assert (goal.version, goal.stage) >= (version, lost._goal.stage)
    assert switch.phase in (phase, Phase.DONE)
    assert switch._goal.stage == lost._goal.stage


def test_another_coordinator_knows_who_was_told_to_cross() -> None:
    lost, brokers = Switch(INTENT, wave=2), Brokers()
    two = {"p": client(BOTH, publishes=True), "q": client(BOTH, publishes=True)}
    brokers.clients("C", **two)
    brokers.go_on(lost, Phase.CROSSING)
    brokers.clients("C", **two | {"p": client(AHEAD, publishes=True)})
    switch = Switch(INTENT, wave=1)
    told = goals(brokers.step(switch))
    assert told and all(goal.stages["p"] == AHEAD for goal in told), "nobody is called back"


def test_one_that_was_called_back_is_told_again_by_a_coordinator_that_goes_on() -> None:
    lost, brokers = switch_at(Phase.CROSSING)
    lost.turn_back()
    assert set(stages(brokers.step(lost))) == {BOTH}
    brokers.clients("C", p=client(AHEAD, publishes=True, is_settled=False), s=client(BOTH))
    switch = Switch(INTENT, wave=1)
    brokers.change("B", 4, version=0, about=0, stage=0)
    brokers.step(switch)  # B is to be told first; p is seen ahead, not that it is on its way back
    brokers.clients("C", p=client(BOTH, publishes=True), s=client(BOTH))
    told = goals(brokers.step(switch))
    assert told and all(goal.stages == {"p": AHEAD} for goal in told)
    brokers.clients("C", p=client(BOTH, publishes=True, is_settled=False), s=client(BOTH))
    assert brokers.step(switch) == [], "once"


def test_an_order_of_an_earlier_switch_says_nothing_about_this_one() -> None:
    switch, brokers = Switch(INTENT), Brokers()
    for broker in BROKERS:
        brokers.change(broker, 4, about=4, version=99, stage=NEW)
    orders = brokers.step(switch)
    assert switch.phase is Phase.OPENING
    assert all(isinstance(order.command, OpenGeneration) for order in orders)


# -- backward -------------------------------------------------------------------------------------------


def test_before_anybody_was_told_to_turn_back_is_to_close() -> None:
    switch, brokers = Switch(INTENT), Brokers()
    brokers.step(switch)
    brokers.change("B", 5, links=[])
    assert switch.turn_back()
    orders = brokers.step(switch)
    assert orders == [SwitchOrder(Place(broker, 4), CloseGeneration(5)) for broker in BROKERS]
    assert switch.phase is Phase.CLEARING
    brokers.go_on(switch, Phase.DONE)
    assert list(brokers.reports) == [Place(broker, 4) for broker in BROKERS]


@pytest.mark.parametrize("phase", [Phase.JOINING, Phase.CROSSING])
def test_turning_back_calls_all_back_then_lets_them_part_then_clears(phase: Phase) -> None:
    switch, brokers = switch_at(phase)
    assert switch.turn_back()
    brokers.clients("C", p=client(AHEAD, publishes=True, is_settled=False), s=client(BOTH))
    brokers.clients("B", 5, p=client(AHEAD, publishes=True, is_settled=False))
    told = goals(brokers.step(switch))
    assert switch.phase is Phase.RETURNING
    assert {(goal.stage, len(goal.stages)) for goal in told} == {(BOTH, 0)}, "nobody is excepted"
    assert brokers.step(switch) == []
    assert "p is to return from C" in switch.waits_for
    brokers.clients("C", p=client(BOTH, publishes=True, is_settled=False), s=client(BOTH))
    brokers.clients("B", 5, p=client(BOTH, publishes=True))
    assert brokers.step(switch) == [], "it may be about to cross yet"
    brokers.clients("C", p=client(BOTH, publishes=True), s=client(BOTH))
    assert set(stages(brokers.step(switch))) == {OLD}
    assert switch.phase is Phase.PARTING
    assert brokers.step(switch) == []
    assert switch.waits_for == ["p is still at B"]
    brokers.clients("B", 5)
    brokers.go_on(switch, Phase.DONE)
    assert list(brokers.reports) == [Place(broker, 4) for broker in BROKERS]


def test_a_broker_that_lost_its_memory_on_the_way_back_is_told_too() -> None:
    switch, brokers = switch_at(Phase.CROSSING)
    switch.turn_back()
    brokers.step(switch)
    del brokers.reports[Place("B", 5)]  # nobody opens that again
    brokers.start("B", 4)
    (order,) = brokers.step(switch)
    assert order.to == Place("B", 4) and isinstance(order.command, SetGoal)
    brokers.clients("C", p=client(BOTH, publishes=True), s=client(BOTH))
    brokers.go_on(switch, Phase.DONE)


def test_after_leaving_it_is_too_late() -> None:
    switch, brokers = switch_at(Phase.LEAVING)
    assert not switch.turn_back()
    brokers.clients("C")
    brokers.go_on(switch, Phase.DONE)
    assert list(brokers.reports) == [Place(broker, 5) for broker in BROKERS]


def test_a_new_coordinator_that_is_to_turn_back_finds_out_that_it_is_too_late() -> None:
    _, brokers = switch_at(Phase.LEAVING)
    switch = Switch(INTENT)
    assert switch.turn_back(), "it does not know yet"
    brokers.step(switch)
    assert switch.phase is Phase.LEAVING
    assert not switch.turn_back()


@pytest.mark.parametrize("phase", [Phase.JOINING, Phase.CROSSING])
def test_a_new_coordinator_turns_back_what_another_began(phase: Phase) -> None:
    _, brokers = switch_at(phase)
    switch = Switch(INTENT)
    assert switch.turn_back()
    assert set(stages(brokers.step(switch))) == {BOTH}
    assert switch.phase is Phase.RETURNING
    brokers.clients("C", p=client(BOTH, publishes=True), s=client(BOTH))
    brokers.go_on(switch, Phase.DONE)
