"""Publisher placement: where a publisher should be connected, and how it gets there without loss.

grape.py    GRAPE's choice: Algorithms 1–3 of the paper, as functions
pop.py      POP's tables and its closest condition, as functions
"""
