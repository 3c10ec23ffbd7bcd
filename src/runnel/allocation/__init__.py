"""Broker allocation: the green planner. As few brokers as possible for the traffic there is; pure functions, no I/O.

bits.py          bit vectors as ints and as packed matrices
profiles.py      what publishers and subscriptions did lately            Phase 1
load.py          how much work that is, and what brokers can take
closeness.py     INTERSECT, XOR, IOS, IOU
packing.py       FBF, BIN PACKING                                        Phase 2
gifs.py, poset.py, exhaustive.py, cram.py    CRAM and its optimisations
pairwise.py, baselines.py                    what green compares with
layout.py        a network and the load of its brokers
overlay.py       the tree, and the publishers in it                      Phase 3
bound.py         no plan needs fewer brokers than this
exact.py         the best allocation of small instances, by a solver
network.py       what the planner is told
constraints.py   what an operator asks for
plan.py          the plan as a document
planner.py       from a network to a plan                                start reading here
"""
