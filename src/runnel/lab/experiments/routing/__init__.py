"""Experiment `routing`: plain routing with covering and without, what everything else is measured against."""
