"""Experiment `placement`: POP and GRAPE on the paper's networks, beside what the paper prints."""
