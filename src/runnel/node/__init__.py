"""A broker as a process: configuration, sockets, signals, logs. `compose.py` says what it is made of."""
