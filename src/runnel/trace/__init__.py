"""Traces: what happened in a network, as tables that any tool for Parquet can read.

schemas    every table and column, and the version of them all
recorder   buffers on the hot path: references in, nothing converted, nothing that blocks
columns    what was recorded, as Arrow tables
folder     how a trace lies on disk, and which writers there are
writer     buffers to files, in a thread or inline; a reader never sees half a file
reader     a trace as datasets, by time and broker
window     a stretch of its time, over which things are measured
summary    what a trace holds, who wrote it, and what is missing
tail       its newest rows, and those that come after them
module     the broker's side: fills the recorder
setup      all of it put together, for a node and for a simulated world
"""
