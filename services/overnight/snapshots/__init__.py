"""The snapshots room."""
