"""CRAM: clustering with resource awareness and minimisation (green §IV-C).

cram.py          the algorithm                                     start reading here
clustering.py    the loop that clusters the closest pair
closeness.py     INTERSECT, XOR, IOS, IOU
gifs.py          optimisation 1: equal bit vectors are one group
poset.py         optimisations 2 and 3: a fast search for the closest partner
exhaustive.py    a slow search that compares with every group
splitting.py     splits clusters, for fewer brokers at a low rate; not in the paper
sharding.py      networks that are too large for one process; not in the paper
"""
