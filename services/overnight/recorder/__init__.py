"""The recorder room."""
