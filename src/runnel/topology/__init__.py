"""Topologies: a network in one file, as a description that the simulator and real processes both carry out.

plan       what a topology is, once it is read and verified
file       TOML to a plan; every mistake is named by its place
events     what a publisher of a topology publishes
examples   topologies made to order, as text
outcome    what came of a run, wherever it ran
processes  the brokers of a topology as processes
clients    the clients of a topology, over the network
tally      what had to be delivered, what was, and how long it took
state      what is known of a network that was started: for those who come later
walk       a network, found out from one broker
explain    why an event does, or does not, reach a client
"""
