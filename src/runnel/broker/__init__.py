"""The broker core: events in, effects out, no I/O. Start reading at `broker.py`."""
