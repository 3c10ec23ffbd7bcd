"""Generations: how a running network becomes another one, and nobody notices.

A plan asks for another tree, and for clients at other brokers. So a second network, the next generation, is built
beside the one that runs, in the same processes; clients join it, publishers cross over wave by wave, everybody leaves
the old one, and it ends. Whoever has crossed and who has not are served alike, so there is no instant at which all
must happen, and until the last step the way back is open.

messages   what brokers tell each other: how far the switch is
module     the broker's side: tells its clients how far to go, and answers how far they are
switch     the coordinator: from what brokers report to what they are to be told; no I/O

The client's side is client/crossing.py, the process's side node/doorman.py and node/node.py.
"""
