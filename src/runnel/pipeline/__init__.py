"""The data pipeline on Spark: from what brokers recorded to what a planner needs, at any size.

session.py     a Spark session, with Java and Python found                  made at the edge, handed to everybody
tables.py      a trace's tables as DataFrames, checked; what was decided about bad input is counted
source.py      spark.read.format("runnel-trace").load(DIR)
streams.py     what each advertisement published and delivered in a day, and the words of bits of that day
profiles.py    days brought together: windows, publishers, bit vectors of subscriptions
doubles.py     rows that are there twice, which count once
clients.py     who is where: subscriptions, advertisements, links, from what was made and withdrawn
brokers.py     what brokers were measured to be able to do
gifs.py        groups of identical profiles
closeness.py   the nearest partner of every group, without looking at all pairs
proposals.py   subscriptions that somebody thinks of, from a file
backtest.py    what they would have got
network.py     what allocation.Network needs, from what the jobs have written
inventory.py   what brokers there are, and what a plan must keep to: one TOML file
planning.py    from profiles to a plan document, fit to be applied
shards.py      parts of a network, each clustered by itself
scale.py       a plan made of such parts, for any number of clients
delays.py      how long messages take in brokers and on links
place.py       GRAPE for every publisher at once
report.py      the metrics of a trace
stream.py      a trace watched while it grows: profiles kept up, other plans proposed
drift.py       when a plan no longer fits, and when another is worth proposing
jobs.py        the jobs: which of these in which order, and where it is kept         start reading here

Rules:
- A transform is a function from DataFrames to a DataFrame; it ends in a `select`, which is its schema. Sessions are
  arguments. Native functions first, Arrow batches where Python must run, no row-at-a-time function.
- Sums are of integers; what comes out does not depend on how rows are spread over machines.
- Nothing is dropped in silence: it is an InputError, or a line of the `Reading`.
"""
