"""The `runnel` program: one file per command, put together in main.py."""
