"""CRAM: clustering with resource awareness and minimisation (green §IV-C).

clustering.py    the loop that clusters the closest pair; optimisation 3: one group with many      start reading here
cram.py          what runs the loop: the packing after every step, and the best schemes
closeness.py     INTERSECT, XOR, IOS, IOU
gifs.py          optimisation 1: equal bit vectors are one group
poset.py         optimisation 2: a fast search for the closest partner; picks the covered GIF set of optimisation 3
exhaustive.py    a slow search that compares with every group
splitting.py     splits clusters, for fewer brokers at a low rate; not in the paper
sharding.py      networks that are too large for one process; not in the paper
"""
