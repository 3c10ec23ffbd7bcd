"""Profiles: data about its clients that a broker collects for planners. Green §III, CROC's back-end component (CBC).

module     the module: collects profiles, answers a BIR with BIAs        start reading here
vectors    which publications local subscriptions got, as bits
rates      how much publishers send, how long matching takes
config     how much is remembered, and the capacity of the broker
messages   BIR and BIA
"""
