"""Runs: one runner a device; lease, sandbox, outbox."""
