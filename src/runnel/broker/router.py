"""Where publications are routed: from the link that they came over to the links that they go to.

Which links these are is decided by the strategy (routing/); the router asks it, and carries the answer out.
`Router.route` is the only place that does so, for one publication as for hundreds that came in one chunk. Their way,
from its top to its bottom:

    → admitted    of what a client with a permit has sent, what it may publish; whoever has no part in routing may not
                  publish at all (access.py)
    → taken in    modules may mark what a client published; the link that it came over counts it
    → hops        the strategy names the links that each goes to (`Strategy.next_hops`)
    → frames      a client gets the frame as it came; neighbours get one that is a hop further, made once for all of
                  them, or one for each where the strategy has a `frame_for`
    → links       queue the frames of a run in one go; at the end of the call `Broker._flush` makes effects of them
                  or, for a publication that is the only one of its run and the last of its chunk: idle links take it
                  past the queue (`Link.send_at_once`), and it becomes an effect here and now, one for all links that
                  get the same frame. Most publications come like this
    → reported    to the story, and to the modules that watch (watchers.py)

Nothing is written here: the driver writes, when it carries the effects out.

A publication that comes alone is queued all the same

- while any neighbour is congested: the flush then tells peers;
- for a client that has, as a publisher itself, less than full credit: the flush raises that again;
- for a link whose `Link.send_at_once` refuses it: something waits there already, an acknowledgement is due, the link is
  down, full or congested, or its peer has not been told yet of what was dropped.

The hops of every publication of a run are collected only if somebody is to be told of the run: the story, or a module
that watches. For a single publication no collection is made: its hops are still in a variable at the end of `route`.

A shortcut may save time and nothing else: what a link has counted and keeps is the same either way. This is the hottest
function of a broker, so it loads what it needs once and calls nothing for cases that are not there.
"""

from __future__ import annotations

from collections.abc import Callable

from runnel.broker.effects import Effect, SendSame
from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.broker.watchers import Watchers
from runnel.errors import BugError, PeerError
from runnel.wire import Publication

Run = list[Publication]
"""Publications that came over one link, with no other message between them; there is at least one."""


class Router:
    """Routes the publications of one broker.

    `links` has every link at its number, and None where a number is free; `congested` has the neighbours' links that
    lag. The broker changes both, the router reads them.
    """

    def __init__(
        self,
        context: Context,
        watchers: Watchers,
        links: list[Link | None],
        congested: dict[Link, None],
        credit_max: int,
        clock: Callable[[], int] | None = None,
        *,
        admit: Callable[[Link, Run, int], Run],
    ) -> None:
        self._context = context
        self._watchers = watchers
        self._links = links
        self._congested = congested
        self._credit_max = credit_max  # a client with less is being slowed down as a publisher
        self._clock = clock  # measures how long routing takes; None: nobody asks
        self._admit = admit  # leaves out what a client's permit does not allow
        self._meter = context.meter
        self._story = context.story
        self._next_hops = context.strategy.next_hops
        self._frame_for = context.strategy.frame_for

    def route(self, link: Link, run: Run, effects: list[Effect], now: int, is_last: bool) -> None:
        """Route what came over a link; `is_last`: nothing follows in the same chunk."""
        links, watchers, meter, clock = self._links, self._watchers, self._meter, self._clock
        next_hops, frame_for, credit_max = self._next_hops, self._frame_for, self._credit_max
        if (link.standing or not link.is_routed) and not (run := self._check(link, run, now)):
            return
        count, began = len(run), clock() if clock is not None else 0
        if watchers.markers and link.is_client:
            self._mark(link, run, now)
        link.count_publications(count)
        watching = watchers.of(run) if watchers.depend_on_marks else watchers.of_all
        all_hops: list[list[int]] | None = [] if self._story or (watching and count > 1) else None
        may_pass = is_last and count == 1 and not self._congested  # may it go past queues?
        queued: dict[int, list[bytes]] = {}  # by the link's number, which is found faster
        passed, passed_bytes, same = 0, 0, b""  # past queues: frames, their bytes, the last
        for publication in run:
            hops = next_hops(link, publication)
            raw, onward = publication.raw, b""
            for number in hops:
                target = links[number]
                if target is None:
                    raise BugError(f"{self._context.name} routes to link {number}, which is gone")
                if target.is_client:
                    frame = raw
                elif onward:  # made for the neighbour before
                    frame = onward
                elif not publication.ttl:
                    continue  # it may reach clients here, and no further broker
                elif frame_for is None:
                    frame = onward = publication.forwarded()
                else:
                    frame = frame_for(target, publication)
                if may_pass and target.credit == credit_max and target.send_at_once(frame):
                    passed += 1
                    passed_bytes += len(frame)
                    if frame is not same:  # its first receiver
                        conns: list[int] = []
                        same = frame
                        effects.append(SendSame(conns, [frame]))
                    conns.append(target.conn)  # nobody has seen the effect yet
                elif number in queued:
                    queued[number].append(frame)
                else:
                    queued[number] = [frame]
            if all_hops is not None:
                all_hops.append(hops)
        if queued:
            self._queue(queued)
        meter.publications_in += count
        meter.publications_out += passed
        meter.frames_out += passed
        meter.bytes_out += passed_bytes
        if clock is not None:
            meter.matching_ns += clock() - began
        if all_hops is not None:
            self._report(link, run, all_hops, watching, now)
        else:  # a single publication, or nobody watches
            for module in watching:
                module.routed_one(self._context, link, publication, hops, now)

    def _check(self, link: Link, run: Run, now: int) -> Run:
        """The publications of a run that its sender may publish; PeerError if its kind may not publish at all."""
        if not link.is_routed:
            raise PeerError(f"{link.name} is here as {link.kind} and may not publish")
        return self._admit(link, run, now)

    def _mark(self, link: Link, run: Run, now: int) -> None:
        for module in self._watchers.markers:
            module.mark_publications(self._context, link, run, now)

    def _queue(self, queued: dict[int, list[bytes]]) -> None:
        for number, frames in queued.items():
            self._links[number].send_publications(frames)  # type: ignore[union-attr]
            self._meter.publications_out += len(frames)

    def _report(
        self,
        link: Link,
        run: Run,
        all_hops: list[list[int]],
        watching: tuple[Module, ...],
        now: int,
    ) -> None:
        """Let the story and the modules that watch know what was routed where."""
        context = self._context
        if self._story is not None:
            for publication, hops in zip(run, all_hops, strict=True):
                names = [target.name for n in hops if (target := self._links[n])]
                what = f"{link.name} published, for {names}"
                self._story.tell(now, what, publication.identity)
        for module in watching:
            module.routed(context, link, run, all_hops, now)
