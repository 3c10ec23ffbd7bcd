"""Where machines meet the world: a driver for brokers and sessions, and connections over TCP or memory."""
