"""Remembers: the single writer of the ledger, its exports and its gauges."""
