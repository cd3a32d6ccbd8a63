"""Engines: one fold over `sketch` and `merge` of parts, here or on many machines."""
