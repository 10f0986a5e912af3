"""The executors room."""
