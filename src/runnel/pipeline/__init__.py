"""The data pipeline on Spark: from traces of any size to profiles, plans, placements and reports.

session.py     makes the Spark session and finds Java and Python for it
tables.py      a trace's tables as DataFrames, validated; irregularities of the input are counted
source.py      spark.read.format("runnel-trace").load(DIR)
daily_bits.py  for each day: what each advertisement published and delivered, and the bits of subscriptions
profiles.py    merges days: windows, publishers, bit vectors of subscriptions
doubles.py     counts and drops duplicate rows
clients.py     the brokers of clients at the end of the trace: subscriptions, advertisements, links
brokers.py     the measured capacities of brokers
proposals.py   reads proposed subscriptions from a file
backtest.py    what proposed subscriptions would have received
network.py     the planner's input, from the tables of the job `make_profiles`
inventory.py   the brokers and constraints for a plan: one TOML file
planning.py    from profiles to a plan document that can be applied
shards.py      parts of a network, which Spark clusters separately
scale.py       a plan made from such parts, for any number of clients
delays.py      how long messages take in brokers and on links
place.py       GRAPE for all publishers
report.py      the metrics of a trace
stream.py      watches a trace while it grows: updates profiles, proposes other plans
drift.py       decides when a plan no longer fits, and when another is worth proposing
jobs.py        the jobs: the order of transforms, and where results are stored         start reading here

Rules:
- A transform is a function from DataFrames to a DataFrame; it ends in a `select`, which is its schema. Sessions are
  arguments. Use native functions first, Arrow batches where Python must run, and no row-at-a-time functions.
- Sums are of integers, so results do not depend on how rows are distributed over machines.
- Nothing is dropped silently: it is an InputError, or it is counted in `Decisions`.
"""
