"""Experiment `green`: plans by every algorithm, each of them run, beside what the paper prints."""
