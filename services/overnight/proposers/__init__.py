"""The proposers room."""
