"""A broker as a process: configuration, sockets, signals, logs. `spec.py` says what it is made of."""
