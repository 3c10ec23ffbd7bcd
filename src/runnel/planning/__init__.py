"""Planning: serve the measured traffic with as few brokers as possible (paper green). Pure functions without I/O.

planner.py      from a network to a plan: the algorithms by name, all three phases      start reading here
network.py      the planner's input; the parts of it are in profiles.py (clients) and load.py (brokers)
foresight.py    head-room that is learned from how traffic has varied
layout.py       an overlay with its clients, and the predicted load of every broker in it
algorithms/     packing, CRAM, the overlay, and the algorithms that they are compared with
documents/      the plan as a file, its constraints, the evidence for it, its goals

The input comes from live brokers (`operate/croc.py`) or from traces (`runnel.pipeline`).
"""
