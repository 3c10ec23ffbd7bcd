"""Experiment `green`: plans by every algorithm, each of them run, beside what the paper prints.

experiment.py    the steps and the findings                                      start reading here
cases.py, run.py what is run, and a single run; live.py: with CROC and GRAPE live
sweeps.py        the results, by network and algorithm
claims.toml      what the paper says; rows.py measures it, figures.py draws it
unseen.py        plans judged by windows that they have not seen (ours)
"""
