"""Modules: everything that a broker does beyond routing, one folder each. None imports another's state machine.

inspection    answers questions about the broker
recording     records which publications were routed and who got them, for traces and profiles
placement     finds the broker where a publisher causes the least load or delay (POP, GRAPE), and migrates it there
profiles      measures what clients send and receive, for planners (CBC)
generations   leads clients from one network to the next while a plan is applied

In each folder, `module.py` has the kind that is registered in `compose.py::MODULES`; recording has none, since others
bring it along (`Module.uses`). This list is for readers: no code needs it. How to add one: docs/extending.md.
"""
