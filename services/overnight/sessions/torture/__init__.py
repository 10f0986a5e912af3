"""Torture: a session under random faults, and a checker that trusts none of the product."""
