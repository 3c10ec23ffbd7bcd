"""Modules: everything that a broker does beyond routing, one folder each.

inspection    answers questions about the broker
placement     finds the broker where a publisher causes the least load or delay (POP, GRAPE), and migrates it there
profiles      measures what clients send and receive, for planners (CBC)
generations   leads clients from one network to the next while a plan is applied

What several modules use:

recording     records which publications were routed and who got them, for traces and profiles: a module that others
              bring along (`Module.uses`)
deadlines.py  deadlines of the things that a module waits for, with one timer for all of them

No module imports another; what several use stands below them. `make check` sees to it; the contract about modules in
pyproject.toml names what all may import: the last two of this list.

In each folder but recording, `module.py` has the kind that is registered in `compose.py::MODULES`. This list is for
readers: no code needs it. How to add one: docs/extending.md.
"""
