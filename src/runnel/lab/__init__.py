"""The laboratory: scenarios in simulated time on the real broker code, and what is measured in them.

shapes       broker trees by name, those of the papers among them
inventory    what brokers have to work with, by name: the papers' tables
scenario     an experiment as a TOML file: start here
crowd        its clients: the workload with everybody at a broker; and the same for real processes
world        its brokers in a simulated world
clients      its clients there; roaming: publishers that are placed
memory       what brokers keep
run          from the first broker to the last row of the trace
scenarios/   scenario files that come along
"""
