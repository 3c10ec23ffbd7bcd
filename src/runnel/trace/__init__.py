"""Traces: what happened in a network, as tables that any tool for Parquet can read.

schemas    every table and column, and the version of them all
recorder   the queue to the writer: sealed tapes with publications (modules/recording), and single small rows
columns    makes Arrow tables of what was recorded
folder     how a trace lies on disk, and which writers there are
writer     writes files, in a thread or inline; a reader never sees half a file
reader     a trace as datasets, by time and broker
window     a period of time over which something is measured
summary    what a trace holds, who wrote it, and what is missing
tail       the newest rows, and those that are added later
module     the broker's side: fills the recorder with all but publications
setup      puts all parts together, for a node and for a simulated world
"""
