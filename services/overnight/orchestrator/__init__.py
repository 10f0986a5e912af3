"""Decides: what to propose, what to run again, what to keep."""
