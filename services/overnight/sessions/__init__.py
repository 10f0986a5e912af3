"""Use cases shared by every front door."""
