"""The algorithms of paper green, and those that it compares them with.

cram/            CRAM and its optimisations                       Phase 2
packing.py       FBF, BIN PACKING                                 Phase 2
overlay.py       the tree, and the publishers in it               Phase 3
pairwise.py      PAIRWISE-K, PAIRWISE-N: the related work
baselines.py     MANUAL, AUTOMATIC
bound.py         no plan needs fewer brokers than this
exact.py         the best allocation of small instances, by a solver

Not in the paper:

small.py         all plans of a small network, for when CRAM finds none
quiet.py         where subscriptions without traffic go if head-room is learned
"""
