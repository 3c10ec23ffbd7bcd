"""Generations: how a running network is replaced by another one without clients noticing.

A plan needs another tree, with clients at other brokers. So a second network, the next generation, is built beside the
running one, in the same processes. Clients join it, publishers cross over in waves, then all clients leave the old
generation and it ends. Clients that have crossed and clients that have not are served alike, so nothing must happen
at the same instant everywhere, and the switch can be undone until its last step.

messages   what brokers tell each other about the progress of a switch
module     the broker's side: passes the orders to its clients, and reports how far they are

The coordinator is operate/switch.py: it decides the next orders from the brokers' reports; operate/apply.py sends them.
The client's side is client/crossing.py, the process's side node/doorman.py and node/node.py.
"""
