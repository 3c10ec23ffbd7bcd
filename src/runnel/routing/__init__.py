"""Routing: which way messages go. One strategy per overlay, behind one interface."""
