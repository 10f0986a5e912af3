"""The words that every room shares: pure types, no I/O, no clock, no randomness."""
