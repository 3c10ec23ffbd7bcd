"""Broker allocation: green. As few brokers as possible for the traffic there is.

The planner, pure functions without I/O:

bits.py          bit vectors as ints and as packed matrices
profiles.py      what publishers and subscriptions did lately            Phase 1
load.py          how much work that is, and what brokers can take
closeness.py     INTERSECT, XOR, IOS, IOU
packing.py       FBF, BIN PACKING                                        Phase 2
gifs.py, poset.py, exhaustive.py, clustering.py, cram.py, splitting.py    CRAM and its optimisations
pairwise.py, baselines.py                    what green compares with
layout.py        a network and the load of its brokers
overlay.py       the tree, and the publishers in it                      Phase 3
bound.py         no plan needs fewer brokers than this
exact.py         the best allocation of small instances, by a solver
network.py       what the planner is told
constraints.py   what an operator asks for
plan.py          the plan as a document
planner.py       from a network to a plan                                start reading here

From a live network to a plan:

config.py        what a broker is told to remember, and what it can take
messages.py      BIR and BIA
recording.py     which publications local subscriptions got, as bits
rates.py         how much publishers send, how long matching takes
cbc.py           the module in every broker                              Phase 1
picture.py       from what brokers answered to what the planner is told
croc.py          the client that asks and plans; the one with I/O
"""
