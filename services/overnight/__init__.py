"""Overnight: research that runs while you sleep."""

__version__ = "0.1.0"
