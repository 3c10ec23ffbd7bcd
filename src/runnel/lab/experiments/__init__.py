"""The experiments: one folder per paper, or per part of the system; its `experiment.py` registers it.

How one is written: `lab/experiment.py`.
"""
