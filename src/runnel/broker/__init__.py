"""The broker core: events in, effects out, no I/O.

broker.py      `handle`: what frames say, modules, what is sent              start reading here
router.py      where publications are routed: hops, frames, links, effects; alone or in runs
watchers.py    which modules mark publications or are called for them; switched while running
connections.py who is connected: handshakes, links, dialling and hanging up, heartbeats
refusals.py    which brokers were refused here, and which refuse this one
namesakes.py   clients of one name at different brokers: the later one stays
kinds.py       the kinds of peers (broker, client, operator), and what sets each apart: a table
permissions.py what a peer may send: asked once for every message, before any handler runs
permits.py     what one user may do: rules as filters, names, roles, quota
access.py      who is let in, what each peer has set up under its permit, which of its publications are taken
links.py       what was sent and received; replay, window, lanes, limits
watermarks.py  before which time all that goes over a link has come
losses.py      what may be lost, and which clients are told of it
tables.py      SRT and PRT, and the matcher that turns a publication into next hops
barriers.py    when routes are complete, and when a path has run dry; the handover of a client
absences.py    which links of the network are missing: what `ready` tells besides
echoes.py      messages for the whole network that come back, because links do not form a tree
module.py      how everything beyond plain routing plugs in: own messages, own timers, a narrow `Context`
arbiter.py     who may move an entity now: a table of leases
meter.py       counts, and the load ratios of the papers
gauges.py      what only the driver knows: processor, memory, output, what waits to be matched
questions.py   what a broker can be asked and ordered
invariants.py  what must hold between any two calls, for tests and the simulator
story.py       what happened to one id
events.py      all that `handle` takes; effects.py, all that it returns
ids.py         ids that are unique in the network; config.py, what a broker is told when it is made
"""
