"""The client's side: a session without I/O, and what drivers build around it.

The session and its parts:

session.py       the entry of the state machine: passes events to its parts          start reading here
homes.py         connections, handshakes, farewells; home.py, the tie to one broker
fences.py        barriers that were sent, and what each of their fences is for
receiving.py     subscriptions; what is delivered, in order and once (marks.py)
publishing.py    advertisements, publications, credit, confirmations
move.py          the lossless move to another broker, from beginning to end          docs/moving.md
crossing.py      from one generation of the network to the next: stages and steps    docs/generations.md
gaps.py          what may have been missed, and when that is over
order.py         what is held back during a crossing; a move holds back by itself (`Mover.hold_back`)
migration.py     a publisher goes from one session to another: its steps             docs/placement.md
effects.py       what a session has for its application; config.py, what it is told when it is made

What programs use, built around it:

roaming.py       the sessions of publishers that live at other brokers than their client
live.py          a session on an event loop: who waits for what
redial.py        finding a broker again: patience, the list, the back-off
readiness.py     how long a program waits for routes
aio.py           `connect` and `Client`; subscription.py and publisher.py, what it hands out
blocking.py      the same for programs without an event loop
events.py        `Event`, a publication as an application sees it; credentials.py, who a program says it is

A session owns its parts; none inherits from another, each gets what it needs when it is made, and changes only what is
its own. Moves, crossings and migrations are tables of transitions (runnel/states.py), and the diagrams in the pages
named above are drawn from them (`make diagrams`). An event that a table does not have raises BugError with what
happened so far.
"""
