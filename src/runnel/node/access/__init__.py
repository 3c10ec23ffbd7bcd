"""Who may use a node: the access file, passwords, tokens, and the keeper that knows whom to let in (docs/access.md)."""
