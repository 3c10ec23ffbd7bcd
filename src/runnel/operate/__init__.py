"""What operators do with a running network from outside: ask it, explain deliveries, plan and apply changes.

ask.py          one question to one broker, over a blocking connection
walk.py         finds the whole network, starting from one broker
explain.py      why an event does, or does not, reach a client
publishers.py   where a publisher is, what placement would decide, and a move by hand
croc.py         asks all brokers for profiles and makes a plan from them (CROC); picture.py evaluates the answers
apply.py        carries out a plan; switch.py decides what comes next
rates.py        how fast counters change, per second
"""
