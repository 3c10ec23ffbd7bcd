"""Workloads: where events and filters come from, be it a file or a seeded generator.

files.py reads and writes tables (JSON Lines, CSV, Parquet); stocks.py makes the papers' stock quotes and
subscriptions. The same seed always gives the same workload.
"""
