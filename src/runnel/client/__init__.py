"""The client's side: a session without I/O, and what drivers build around it."""
