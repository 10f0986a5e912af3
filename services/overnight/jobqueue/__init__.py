"""The jobqueue room."""
