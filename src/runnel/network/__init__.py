"""Networks from files: a topology, as a description that the simulator and real processes both carry out.

topology   the classes of a topology that was read and verified
file       reads a topology from TOML; errors name the place in the file
events     what a publisher of a topology publishes
examples   generated topologies, as text
outcome    the results of a run, in the simulator or with real processes
processes  the brokers of a topology as processes
clients    the clients of a topology, over the network
tally      counts what had to be delivered, what was delivered, and how long it took
state      the file in which `runnel up` leaves the state of a network for other commands
"""
