"""Crossing: a session goes from one generation of the network to the next, with nothing lost and hardly a pause.

    stage    lives in   publishes in
    OLD      the old    the old
    BOTH     both       the old
    AHEAD    both       the new
    NEW      the new    the new

Brokers tell how far to go (`Goal`), forward or, when a switch is taken back, backward; the session goes one step after
the other and tells how far it is (`Reached`). Every step waits for a fence:

    OLD → BOTH     everything is set up in the new generation, and its routes are there
    BOTH → AHEAD   routes to our publishers are there; publishing pauses until the old network is dry behind us
    AHEAD → BOTH   the same the other way round; our publishers get new ids in the old network
    AHEAD → NEW    the old home's link has brought what there was, and none of it is held back; nobody publishes there
                   any more
    BOTH → OLD     the same for the new home's

Both generations deliver. Each publication is published in one of them, so none comes twice. Order: whoever publishes in
a generation has waited until the other was dry, so all that was published there before is at the brokers of its
subscribers. Therefore a session with two homes holds back what comes from an advertisement that it has not heard of,
until the link of its other home has brought what that one's broker had for it. If both hold something back of one
client, its ids tell what came first: wherever it goes on publishing, it does so under later ids.

A broker on standby, which has no place in the network, tells its clients to go to another of the same generation.
It has nothing for them and they have nothing there, so they simply do.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum, IntEnum

from runnel.broker.effects import Connect
from runnel.broker.ids import IdSource, is_of_one_source
from runnel.client.config import SessionConfig
from runnel.client.effects import Moved, Unconfirmed
from runnel.client.home import CROSSED, HELD, Home
from runnel.client.marks import Marks
from runnel.client.move import Move
from runnel.client.publishing import Publishing
from runnel.language import EVERYTHING
from runnel.wire import Barrier, Goal, Publication, Reached, Unadvertise, raw_selection


class Stage(IntEnum):
    """How far a session has come; see the top of the file."""

    OLD = 0
    BOTH = 1
    AHEAD = 2
    NEW = 3


class Step(Enum):
    """What a session waits for, on its way to the next stage."""

    JOINING = "joining"  # all routes of the home ahead
    READYING = "readying"  # routes to our publishers, where they are to publish
    DRYING = "drying"  # nothing of ours is under way any more where they published
    LEAVING = "leaving"  # the link that is to be left has brought what there was
    RELEASING = "releasing"  # what it brought is held back no more


class Crossing(Publishing):
    """The half of a session that knows of generations."""

    def __init__(self, config: SessionConfig, incarnation: int, ids: IdSource) -> None:
        super().__init__(config, incarnation, ids)
        self._marks = Marks()
        self._goal: Goal | None = None
        self._heard_of = (0, 0)  # generation and version of the last goal
        self._step: Step | None = None
        self._awaited = 0  # the token of the fence that ends the step

    @abstractmethod
    def connect(self, broker: str, now: int, generation: int = 0) -> None:
        """Live at this broker from now on."""

    @abstractmethod
    def _give_up_move(self) -> None:
        """Stay where we are."""

    @abstractmethod
    def hold(self, holding: bool) -> None:
        """Stop acknowledging what is delivered, or go on."""

    @abstractmethod
    def _deliver(self, publication: Publication) -> None:
        """Hand a publication to the application."""

    @property
    def is_settled(self) -> bool:
        """Whether it neither moves nor crosses, nor is about to."""
        return self.move is Move.STEADY and self._goal is None and self.ahead is None

    # -- the goal -------------------------------------------------------------------------------------

    def _goal_came(self, told_by: Home, goal: Goal) -> None:
        told_by.goal = goal
        home = self.home
        is_redirect = goal.generation == told_by.generation and goal.address != ""
        if told_by is self.next:  # otherwise it is looked at on arrival
            if is_redirect:
                self._give_up_move()
            return
        if is_redirect:
            if told_by is home:
                self._redirect(home, goal)
            return
        if home is None or (goal.generation, goal.version) <= self._heard_of:
            return
        self._heard_of = goal.generation, goal.version
        if goal.generation < home.generation:
            return
        if self.ahead is None and goal.generation == home.generation:
            self._send(home, Reached(goal.generation, Stage.NEW, goal.version))
            return
        self._goal = goal
        if self.holding:
            self.hold(False)  # fences come behind all that waits
        self.pausing = self.pausing or self._is_late
        if self._step is Step.READYING or (self._step is Step.JOINING and self._target < 1):
            self._step = None  # nothing has come of it yet
        self._strive()

    def _redirect(self, home: Home, goal: Goal) -> None:
        if self.ahead is not None and self.ahead.generation == goal.generation:
            self._end(home, gap=True)
        else:
            self._effects.append(Moved(f"{goal.address}#{goal.generation}"))
            self.connect(f"{goal.address}#{goal.generation}", _now(home), goal.generation)

    @property
    def _target(self) -> int:
        """Where to go from here; a home ahead in a generation that nobody speaks of any more is left first."""
        goal = self._goal
        if goal is None:
            return self.stage
        is_stale = self.ahead is not None and self.ahead.generation != goal.generation
        return Stage.OLD if is_stale else goal.stage

    @property
    def _is_late(self) -> bool:
        """Others have left the old network already: nobody is there to get what would be published."""
        return self.stage < Stage.AHEAD and self._target == Stage.NEW

    def _strive(self) -> None:
        """Begin the next step towards the goal, if none is under way and nothing else is."""
        goal, home = self._goal, self.home
        is_busy = self.move is not Move.STEADY or any(p.paused for p in self.publishers.values())
        if goal is None or home is None or self._step is not None or is_busy:
            return
        ahead = self.ahead
        if ahead is None:
            if goal.stage == Stage.OLD or not goal.address:
                self._goal = None
                return
            self.ahead = ahead = self._new_home(f"{goal.address}#{goal.generation}", _now(home))
            ahead.generation, ahead.dialling = goal.generation, True
            self._effects.append(Connect(ahead.broker))
            self._step = Step.JOINING
        elif self.stage == Stage.OLD and self._target == Stage.OLD:
            self._end(ahead)
        elif self.stage == Stage.BOTH and self._target == Stage.OLD:
            self._leave_when_dry(ahead)
        elif self.stage == Stage.BOTH and self._target > Stage.BOTH:
            self._ready_at(ahead)
        elif self.stage == Stage.AHEAD and self._target < Stage.AHEAD:
            self._ready_at(home)
        elif self.stage == Stage.AHEAD and self._target == Stage.NEW:
            self._leave_when_dry(home)
        else:
            self._report()

    def _reach(self, stage: Stage) -> None:
        self._step, self.stage = None, stage
        self.pausing = self._is_late
        if stage != self._target:
            self._report()
        self._strive()

    def _report(self, *homes: Home) -> None:
        """Tell brokers how far we are, and whether that is far enough."""
        goal, ahead = self._goal, self.ahead
        if ahead is None:
            return
        is_far_enough = goal is not None and self._step is None and self.stage == self._target
        version = goal.version if goal is not None and is_far_enough else 0
        for home in homes or self._homes():
            if home.registered:
                self._send(home, Reached(ahead.generation, self.stage, version))

    # -- steps ----------------------------------------------------------------------------------------

    def _wait_for(self, step: Step, home: Home, about: str = "advertisement") -> None:
        """Begin a step that ends with a fence of this home."""
        self._step = step
        self._awaited = self._ids.next()
        home.waits[self._awaited] = CROSSED
        self._send(home, Barrier(self._awaited, raw_selection(EVERYTHING), about))  # type: ignore[arg-type]

    def _ready_at(self, home: Home) -> None:
        """Get ready to publish there, under later ids than so far: by them subscribers know what came first."""
        outlet = self.outlet
        if not self.publishers and not (outlet and outlet.outstanding):
            self._change_outlet()
        elif home.registered:
            so_far = outlet.advertisements if outlet is not None else {}
            for id in self.publishers:
                known_as = home.advertisements.get(id, 0)
                if known_as < so_far.get(id, 0):
                    if known_as:
                        self._send(home, Unadvertise(known_as))
                    self._register_publisher(home, id)
            self._wait_for(Step.READYING, home)

    def _dry(self) -> None:
        self.pausing = True
        outlet = self.outlet
        if outlet is not None and outlet.registered:
            self._wait_for(Step.DRYING, outlet)
        else:
            self._change_outlet()

    def _change_outlet(self) -> None:
        """The other generation is where we publish from now on."""
        outlet = self.outlet
        if outlet is not None and outlet.outstanding:  # lost with the link
            self._effects.append(Unconfirmed(len(outlet.outstanding)))
            outlet.outstanding.clear()
        self._reach(Stage.AHEAD if self.stage == Stage.BOTH else Stage.BOTH)

    def _leave_when_dry(self, home: Home) -> None:
        if home.registered:
            self._wait_for(Step.LEAVING, home, "link")
        else:
            self._end(home, gap=True)

    def _end(self, left: Home, *, gap: bool = False) -> None:
        """One home is enough: leave the other."""
        assert self.home is not None and self.ahead is not None
        stays = self.ahead if left is self.home else self.home
        is_new, goal = stays is self.ahead, self._goal
        self._step = None
        self._let_out(stays, left)
        self._leave(left)
        self.home, self.ahead = stays, None
        self.stage, self.pausing = Stage.OLD, False
        if goal is not None and (is_new or goal.generation == left.generation):
            self._goal = None
        self._ask_again(stays, left.asked_ready)
        if is_new:
            version = goal.version if goal is not None else 0
            self._send(stays, Reached(stays.generation, Stage.NEW, version))
            self._effects.append(Moved(stays.broker, gap))
        self._strive()

    # -- what happens meanwhile -----------------------------------------------------------------------

    def _crossed(self, home: Home, token: int) -> None:
        """A fence that a step waits for, unless that step was given up."""
        if token != self._awaited or self._step is None:
            return
        match self._step:
            case Step.JOINING:
                self._reach(Stage.BOTH)
            case Step.READYING:
                self._dry()
            case Step.DRYING:
                self._confirm(home, len(home.outstanding))
                self._change_outlet()
            case Step.LEAVING:
                self._step = Step.RELEASING
                self._release_due()

    def _home_is_lost(self, old: Home) -> None:
        """The home was given up for another: what a step waited for there does not come."""
        ahead = self.ahead
        if ahead is None:
            return
        for id in sorted(old.held_by):
            self._release_one(old, id)
        self._let_out(ahead)
        if self._step is not Step.JOINING and self._awaited not in ahead.waits:
            self._step, self.pausing = None, self._is_late
            self._strive()

    def _is_known(self, home: Home) -> None:
        """A home was set up anew: fences that were on their way back are lost, and what they stood for with them."""
        ahead = self.ahead
        if ahead is None:
            self._heard_of = (0, 0)  # what this broker is going to say counts, whatever others said
            return
        other = self.home if home is ahead else ahead
        if other is not None:
            self._let_out(other)
            if self.ahead is None:
                return
            if other.registered and other.generation == home.generation:
                # The old generation is gone: whoever asked for it was taken in by the new one. Or the new one is not
                # there again yet, and the old one took us in; then what we were told is to be told again.
                self._heard_of = (0, 0)
                self._end(ahead if self.stage == Stage.OLD else other if home is ahead else home)
                return
        self._report(home)
        if self._step is Step.JOINING:
            if home is ahead:
                self._wait_for(Step.JOINING, ahead)
        elif self._step is not None and self._awaited not in (other.waits if other else ()):
            self._step, self.pausing = None, self._is_late
            self._strive()

    def _look_for_lost(self, now: int) -> None:
        """Nobody waits for a home that does not come back."""
        for home in (self.home, self.ahead):
            if self.ahead is None or home is None or not home.link.is_expired(now):
                continue
            other = self.home if home is self.ahead else self.ahead
            if other is not None:
                self._let_out(other)
            if self._awaited in home.waits and self._step is Step.DRYING:
                self._change_outlet()
            elif self._awaited in home.waits and self._step is Step.LEAVING:
                self._end(home, gap=True)
        self._strive()

    # -- order ----------------------------------------------------------------------------------------

    def _must_wait(self, home: Home, publication: Publication) -> bool:
        """Whether a publication is held back, since an earlier one may come from the other home."""
        id = publication.advertisement
        if id in home.heard:
            return False
        held = home.held_by.get(id)
        other = self.home if home is self.ahead else self.ahead
        if held is None:
            if id in self._marks or other is None or not other.registered:
                home.heard[id] = None
                return False
            held = home.held_by[id] = []
            token = self._ids.next()
            other.waits[token] = HELD
            home.held_until[token] = id
            self._send(other, Barrier(token, raw_selection(EVERYTHING), "link"))
        held.append(publication)
        home.held_bytes += len(publication.raw)
        if home.held_bytes > self.config.held_bytes_max and other and not other.link.established:
            home.link.holding = True  # until the other is back, or lost
        return True

    def _brought(self, home: Home, token: int) -> None:
        """A link has brought what its broker had: what came over the other may be delivered."""
        other = self.home if home is self.ahead else self.ahead
        if other is not None and token in other.held_until:
            other.due[other.held_until.pop(token)] = None
            self._release_due()

    def _let_out(self, *homes: Home) -> None:
        """What is held back there waits for no fence any more: its other path is gone, or nobody can tell."""
        for home in homes:
            home.held_until.clear()
            home.due.update(dict.fromkeys(home.held_by))
        self._release_due()

    def _release_due(self) -> None:
        """Deliver what may be; but not before what the same client published earlier and the other home holds back."""
        home, ahead = self.home, self.ahead
        homes = ((home, ahead), (ahead, home))
        due = [(id, one, other) for one, other in homes if one is not None for id in one.due]
        for id, one, other in sorted(due, key=lambda each: each[0]):
            earlier = () if other is None else other.held_by
            if not any(held < id and is_of_one_source(held, id) for held in earlier):
                self._release_one(one, id)
        left = ahead if self.stage == Stage.BOTH else home
        if self._step is Step.RELEASING and left is not None and not left.held_by:
            self._end(left)

    def _release_one(self, home: Home, id: int) -> None:
        home.heard[id] = None
        home.due.pop(id, None)
        for publication in home.held_by.pop(id, ()):
            home.held_bytes -= len(publication.raw)
            self._deliver(publication)
        if not home.held_by and home.link.holding != self.holding:
            home.link.holding = self.holding
            home.link.owe_ack()


def _now(home: Home) -> int:
    """The time, as far as a link knows it: something has just come over it, or it is down."""
    return max(home.link.heard_at, home.link.down_since)
