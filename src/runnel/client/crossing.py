"""Crossing: a session goes from one generation of the network to the next, with nothing lost and a short pause.

All clients do so when a plan is applied. Within one generation a client goes to another broker by a move (move.py), and
a single publisher by a migration (migration.py).

    stage    lives in   publishes in
    OLD      the old    the old
    BOTH     both       the old
    AHEAD    both       the new
    NEW      the new    the new

A broker tells the session which stage to go to (`Goal`): forward, or backward when a switch is taken back. The session
goes there step by step and reports the stage it has reached (`Reached`). Every step waits for a fence:

    OLD → BOTH     everything is set up in the new generation, and its routes are there
    BOTH → AHEAD   routes to our publishers are there; publishing pauses until the old network is dry behind us
    AHEAD → BOTH   the same in the other direction; our publishers get new ids in the old network
    AHEAD → NEW    the old home's link has delivered everything, and none of it is held back; nobody publishes there
                   any more
    BOTH → OLD     the same for the new home's link

`TRANSITIONS` lists all steps between the stages. In between both generations deliver. Each publication is published in
one generation only, so none is delivered twice; order.py keeps publications in order.

A broker on standby has no place in the network and sends its clients to another broker of the same generation. Nothing
is under way between them, so they connect there without a crossing (`Session`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from runnel.client.config import SessionConfig
from runnel.client.effects import Moved, SessionEffect
from runnel.client.fences import AwaitedFence, Fences, Purpose, ready_fences
from runnel.client.gaps import GapKeeper
from runnel.client.home import Home
from runnel.client.homes import Homes
from runnel.client.order import OrderKeeper
from runnel.client.publishing import Advertiser
from runnel.states import StateMachine, Transitions
from runnel.wire import Goal, Reached, Stage, Unadvertise
from runnel.wire.messages import About


class Position(Enum):
    """Where a session stands between two generations: at a stage, or on a step from one to another."""

    ONE = "one_home"  # in either generation
    JOINING = "joining"  # waits for all routes of the home ahead
    BOTH = "both"
    READYING_NEW = "readying_new"  # waits for routes to our publishers where they will publish
    # Waits until nothing that we published is under way in the old network.
    DRYING_OLD = "drying_old"
    LEAVING_NEW = "leaving_new"  # waits until the link to the new home has delivered everything
    RELEASING_NEW = "releasing_new"  # waits until none of that is held back
    AHEAD = "ahead"
    READYING_OLD = "readying_old"
    DRYING_NEW = "drying_new"
    LEAVING_OLD = "leaving_old"
    RELEASING_OLD = "releasing_old"


class CrossingEvent(Enum):
    """The events of a crossing."""

    GOAL = "a goal in another generation"
    REGISTERED = "all advertisements and subscriptions are queued for the home ahead"
    JOINED = "its routes are complete"
    PUBLISH_THERE = "the goal is to publish in the other"
    READY = "routes to our publishers are there"
    DRY = "the old path is dry or lost, or was never used"
    LEAVE = "the goal is to leave one"
    LINK_DRAINED = "its link has delivered everything"
    GOAL_CHANGED = "the goal has changed"
    FENCE_LOST = "its fence is lost"
    LEFT = "one home is left"


FROM_BOTH = (
    Position.READYING_NEW,
    Position.DRYING_OLD,
    Position.LEAVING_NEW,
    Position.RELEASING_NEW,
)
FROM_AHEAD = (
    Position.READYING_OLD,
    Position.DRYING_NEW,
    Position.LEAVING_OLD,
    Position.RELEASING_OLD,
)
"""The steps that begin at a stage, and fall back to it if a fence is lost."""

TRANSITIONS: Transitions[Position, CrossingEvent] = Transitions(
    Position.ONE,
    {
        (Position.ONE, CrossingEvent.GOAL): Position.JOINING,
        (Position.JOINING, CrossingEvent.REGISTERED): Position.JOINING,
        (Position.JOINING, CrossingEvent.JOINED): Position.BOTH,
        # forward
        (Position.BOTH, CrossingEvent.PUBLISH_THERE): Position.READYING_NEW,
        (Position.READYING_NEW, CrossingEvent.READY): Position.DRYING_OLD,
        (Position.DRYING_OLD, CrossingEvent.DRY): Position.AHEAD,
        (Position.AHEAD, CrossingEvent.LEAVE): Position.LEAVING_OLD,
        (Position.LEAVING_OLD, CrossingEvent.LINK_DRAINED): Position.RELEASING_OLD,
        (Position.RELEASING_OLD, CrossingEvent.LEFT): Position.ONE,
        # backward
        (Position.AHEAD, CrossingEvent.PUBLISH_THERE): Position.READYING_OLD,
        (Position.READYING_OLD, CrossingEvent.READY): Position.DRYING_NEW,
        (Position.DRYING_NEW, CrossingEvent.DRY): Position.BOTH,
        (Position.BOTH, CrossingEvent.LEAVE): Position.LEAVING_NEW,
        (Position.LEAVING_NEW, CrossingEvent.LINK_DRAINED): Position.RELEASING_NEW,
        (Position.RELEASING_NEW, CrossingEvent.LEFT): Position.ONE,
        # without publishers, or if the outlet does not know us
        **{
            (at, CrossingEvent.DRY): Position.AHEAD for at in (Position.BOTH, Position.READYING_NEW)
        },
        **{
            (at, CrossingEvent.DRY): Position.BOTH for at in (Position.AHEAD, Position.READYING_OLD)
        },
        # the goal changes before the step has had an effect
        (Position.READYING_NEW, CrossingEvent.GOAL_CHANGED): Position.BOTH,
        (Position.READYING_OLD, CrossingEvent.GOAL_CHANGED): Position.AHEAD,
        # a home was given up, or set up anew
        **{(at, CrossingEvent.FENCE_LOST): Position.BOTH for at in FROM_BOTH},
        **{(at, CrossingEvent.FENCE_LOST): Position.AHEAD for at in FROM_AHEAD},
        # a home is lost for good, its generation has ended, or the session closes
        (Position.JOINING, CrossingEvent.LEFT): Position.ONE,
        **{(at, CrossingEvent.LEFT): Position.ONE for at in (Position.BOTH, *FROM_BOTH[:3])},
        **{(at, CrossingEvent.LEFT): Position.ONE for at in (Position.AHEAD, *FROM_AHEAD[:3])},
    },
)
"""Every transition there is; the diagram in docs/generations.md is made from it."""

STAGES: dict[Position, Stage] = {
    **dict.fromkeys((Position.ONE, Position.JOINING), Stage.OLD),
    **dict.fromkeys((Position.BOTH, *FROM_BOTH), Stage.BOTH),
    **dict.fromkeys((Position.AHEAD, *FROM_AHEAD), Stage.AHEAD),
}
"""The stage of each position. At NEW there is one home again, whose generation is the next crossing's OLD."""


class Crossing:
    """The crossings of one session. No crossing begins while `is_moving()`, that is, during a move."""

    def __init__(
        self,
        config: SessionConfig,
        homes: Homes,
        fences: Fences,
        advertiser: Advertiser,
        order: OrderKeeper,
        gaps: GapKeeper,
        effects: list[SessionEffect],
        is_moving: Callable[[], bool],
    ) -> None:
        self.stage = Stage.OLD
        self.pausing = False  # nothing is published: the outlet is about to change
        self._homes = homes
        self._fences = fences
        self._advertiser = advertiser
        self._order = order
        self._gaps = gaps
        self._effects = effects
        self._is_moving = is_moving
        self._machine = StateMachine(TRANSITIONS, f"the crossing of {config.name}")
        self._goal: Goal | None = None
        self._last_goal = (0, 0)  # generation and version
        self._awaited = 0  # the token of the fence that ends the step

    @property
    def is_idle(self) -> bool:
        """Whether the session lives in one generation and has no goal in another."""
        return self._goal is None and self._homes.ahead is None

    @property
    def outlet(self) -> Home | None:
        """The home that we publish at."""
        homes = self._homes
        if homes.ahead is None or self.stage < Stage.AHEAD:
            return homes.home
        return homes.ahead

    @property
    def position(self) -> Position:
        """Where the session stands."""
        return self._machine.state

    def _take(self, event: CrossingEvent, detail: str = "") -> None:
        self.stage = STAGES[self._machine.take(event, detail)]

    # -- the goal -------------------------------------------------------------------------------------

    def take_goal(self, goal: Goal) -> None:
        """Take in the goal that one of our brokers has sent."""
        home = self._homes.home
        if home is None or (goal.generation, goal.version) <= self._last_goal:
            return
        self._last_goal = goal.generation, goal.version
        if goal.generation < home.generation:
            return
        if self._homes.ahead is None and goal.generation == home.generation:
            home.send(Reached(goal.generation, Stage.NEW, goal.version))
            return
        self._goal = goal
        if self._homes.holding:
            self._homes.hold(False)  # fences come behind all that waits
        self.pausing = self.pausing or self._is_late
        ahead = self._homes.ahead
        if self._machine.can(CrossingEvent.GOAL_CHANGED):
            self._take(CrossingEvent.GOAL_CHANGED)
        elif ahead is not None and self.position is Position.JOINING and self._target == Stage.OLD:
            self._leave(ahead)
            return
        self._begin_next_step()

    def take_redirect(self, goal: Goal) -> bool:
        """Take in a redirect from a home that is on standby; returns whether we live where it sends us already."""
        home, ahead = self._homes.home, self._homes.ahead
        if home is None or ahead is None or ahead.generation != goal.generation:
            return False
        self._leave(home, gap=True)
        return True

    def forget_last_goal(self) -> None:
        """Accept the next goal, even if it is older than those that other brokers have sent."""
        self._last_goal = (0, 0)

    @property
    def _target(self) -> Stage:
        """The stage to go to; a home ahead in a generation other than the goal's has to be left first."""
        goal, ahead = self._goal, self._homes.ahead
        if goal is None:
            return self.stage
        is_stale = ahead is not None and ahead.generation != goal.generation
        return Stage.OLD if is_stale else goal.stage

    @property
    def _is_late(self) -> bool:
        """Whether other clients have left the old network already, so that publishing there would reach nobody."""
        return self.stage < Stage.AHEAD and self._target == Stage.NEW

    def _begin_next_step(self) -> None:
        """Begin the next step towards the goal, unless a step, a move or a migration is under way."""
        goal, home, ahead = self._goal, self._homes.home, self._homes.ahead
        if goal is None or home is None or self._is_moving() or self._advertiser.has_paused:
            return
        target = self._target
        match self.position:
            case Position.ONE:
                self._join(goal, home)
            case Position.BOTH if target == Stage.OLD and ahead is not None:
                self._leave_when_dry(ahead)
            case Position.BOTH if target > Stage.BOTH and ahead is not None:
                self._prepare_outlet(ahead)
            case Position.AHEAD if target < Stage.AHEAD:
                self._prepare_outlet(home)
            case Position.AHEAD if target == Stage.NEW:
                self._leave_when_dry(home)
            case Position.BOTH | Position.AHEAD:
                self._report()

    def _finish_step(self, event: CrossingEvent) -> None:
        """A step is done: begin the next one, or report that the goal is reached."""
        self._take(event)
        self.pausing = self._is_late
        if self.stage != self._target:
            self._report()
        self._begin_next_step()

    def _report(self, *homes: Home) -> None:
        """Tell brokers the stage that we have reached, and whether it is the goal."""
        goal, ahead = self._goal, self._homes.ahead
        if ahead is None:
            return
        is_far_enough = (
            goal is not None
            and self.position in (Position.BOTH, Position.AHEAD)
            and self.stage == self._target
        )
        version = goal.version if goal is not None and is_far_enough else 0
        for home in homes or self._homes.all():
            if home.registered:
                home.send(Reached(ahead.generation, self.stage, version))

    # -- steps ----------------------------------------------------------------------------------------

    def _begin(self, event: CrossingEvent, home: Home, about: About = "advertisement") -> None:
        """Begin a step that ends with a fence of this home."""
        self._take(event)
        self._awaited = self._fences.send_barrier(home, AwaitedFence(Purpose.STEP), about=about)

    def _join(self, goal: Goal, home: Home) -> None:
        if goal.stage == Stage.OLD or not goal.address:
            self._goal = None
            return
        broker = f"{goal.address}#{goal.generation}"
        self._take(CrossingEvent.GOAL, broker)
        ahead = self._homes.open_ahead(broker, home.latest_time, goal.generation)
        self._gaps.share_with_ahead(home, ahead)

    def _prepare_outlet(self, home: Home) -> None:
        """Prepare to publish there, under ids later than those so far: subscribers order publications by them."""
        outlet, publishers = self.outlet, self._advertiser.publishers
        if not publishers and not (outlet and outlet.outstanding):
            self._change_outlet()
        elif home.registered:
            so_far = outlet.advertisements if outlet is not None else {}
            for id in publishers:
                wire_id = home.advertisements.get(id, 0)
                if wire_id < so_far.get(id, 0):
                    if wire_id:
                        home.send(Unadvertise(wire_id))
                    self._advertiser.register(home, id)
            self._begin(CrossingEvent.PUBLISH_THERE, home)

    def _wait_until_dry(self) -> None:
        """Pause publishing until nothing that we have published is under way at the present outlet."""
        self.pausing = True
        outlet = self.outlet
        if outlet is not None and outlet.registered:
            self._begin(CrossingEvent.READY, outlet)
        else:
            self._change_outlet()

    def _change_outlet(self) -> None:
        """Publish in the other generation from now on."""
        outlet = self.outlet
        if outlet is not None:
            self._advertiser.give_up_outstanding(outlet)  # lost with the link, if there is any
        self._finish_step(CrossingEvent.DRY)

    def _leave_when_dry(self, home: Home) -> None:
        if home.registered:
            self._begin(CrossingEvent.LEAVE, home, "link")
        else:
            self._leave(home, gap=True)

    def _leave(self, left: Home, *, gap: bool = False) -> None:
        """Leave one of the two homes, which ends the crossing."""
        stays = self._homes.other(left)
        assert stays is not None
        is_new, goal = stays is self._homes.ahead, self._goal
        if is_new:
            self._gaps.ask_missing(stays)
        self._gaps.home_left(left, stays, lost=gap)
        self._take(CrossingEvent.LEFT, left.broker)
        self._order.stop_waiting(stays, left)
        self._homes.keep_only(stays)
        self.pausing = False
        if goal is not None and (is_new or goal.generation == left.generation):
            self._goal = None
        self._fences.ask_again(stays, ready_fences(left))
        if is_new:
            version = goal.version if goal is not None else 0
            stays.send(Reached(stays.generation, Stage.NEW, version))
            self._effects.append(Moved(stays.broker))
        self._begin_next_step()

    # -- fences, and homes that are lost --------------------------------------------------------------

    def take_step_fence(self, home: Home, token: int, missing: tuple[str, ...]) -> None:
        """Take in the fence that a step waits for, unless that step was given up.

        `missing` are the links that cannot be reached from that home.
        """
        if token != self._awaited:
            return
        match self.position:
            case Position.JOINING:
                self._gaps.home_joined(home, missing)
                self._finish_step(CrossingEvent.JOINED)
            case Position.READYING_NEW | Position.READYING_OLD:
                self._wait_until_dry()
            case Position.DRYING_OLD | Position.DRYING_NEW:
                self._advertiser.confirm_all(home)
                self._change_outlet()
            case Position.LEAVING_OLD | Position.LEAVING_NEW:
                self._take(CrossingEvent.LINK_DRAINED)
                self._order.release_due()
                self._leave_if_released()

    def link_drained(self, home: Home, token: int) -> None:
        """A link has delivered everything that its broker had for us."""
        self._order.link_drained(home, token)
        self._leave_if_released()

    def _stop_waiting(self, home: Home) -> None:
        """Stop waiting for fences of the other home before delivering what came from this one."""
        self._order.stop_waiting(home)
        self._leave_if_released()

    def _leave_if_released(self) -> None:
        home, ahead = self._homes.home, self._homes.ahead
        left = {Position.RELEASING_OLD: home, Position.RELEASING_NEW: ahead}.get(self.position)
        if left is not None and not left.held.by:
            self._leave(left)

    def home_lost(self, old: Home) -> None:
        """The home was given up for another, so the fences that a step expected from it do not come."""
        ahead = self._homes.ahead
        if ahead is None:
            return
        self._order.release_all(old)
        self._stop_waiting(ahead)
        if self.position is not Position.JOINING and self._awaited not in ahead.waits:
            self._retry_step()

    def home_registered(self, home: Home) -> None:
        """A home was set up anew: the fences that were expected from it are lost."""
        ahead = self._homes.ahead
        if ahead is None:
            self.forget_last_goal()
            return
        other = self._homes.other(home)
        if other is not None:
            self._stop_waiting(other)
            if self._homes.ahead is None:
                return
            if other.registered and other.generation == home.generation:
                # One of the two generations has ended, and a broker of the other one has answered in its place: the old
                # generation is gone, or the new one is not there again yet. In the second case the goal will be sent
                # again.
                self.forget_last_goal()
                in_vain = ahead if self.stage == Stage.OLD else other if home is ahead else home
                self._leave(in_vain)
                return
        self._report(home)
        if self.position is Position.JOINING:
            if home is ahead:
                self._begin(CrossingEvent.REGISTERED, ahead)
        elif self._machine.can(CrossingEvent.FENCE_LOST) and self._awaited not in (
            other.waits if other else ()
        ):
            self._retry_step()

    def _retry_step(self) -> None:
        """Begin again from the stage that was reached."""
        if self._machine.can(CrossingEvent.FENCE_LOST):
            self._take(CrossingEvent.FENCE_LOST)
        self.pausing = self._is_late
        self._begin_next_step()

    def tick(self, now: int) -> None:
        """Stop waiting for a home that has been away for too long."""
        if self.is_idle:
            return
        for home in (self._homes.home, self._homes.ahead):
            if self._homes.ahead is None or home is None or not home.link.is_expired(now):
                continue
            other = self._homes.other(home)
            if other is not None:
                self._stop_waiting(other)
            if self._awaited in home.waits:
                self._fence_is_lost_for_good(home)
        self._begin_next_step()

    def _fence_is_lost_for_good(self, home: Home) -> None:
        if self.position in (Position.DRYING_OLD, Position.DRYING_NEW):
            self._change_outlet()
        elif self.position in (Position.LEAVING_OLD, Position.LEAVING_NEW):
            self._leave(home, gap=True)

    def close(self) -> None:
        """The session leaves all its homes."""
        if self.position is not Position.ONE:
            self._take(CrossingEvent.LEFT, "closed")
        self.pausing, self._goal = False, None
