"""The experiments: one file per paper, or per part of the system. Each registers itself (see `lab/experiment.py`)."""
