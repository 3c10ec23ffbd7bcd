"""Routing: which way messages go. One strategy per overlay, behind one interface.

strategy.py   the interface: what a strategy must do       start reading here
tree/         the strategy `tree`, for brokers that form a tree

The function that routes publications is `broker/router.py::Router.route`; it asks the broker's strategy for the next
hops (`strategy.py::Strategy.next_hops`). To add a strategy: docs/extending.md.
"""
