"""The simulator: a deterministic world of brokers and clients, with faults and checkers. Start at `campaign.py`."""
