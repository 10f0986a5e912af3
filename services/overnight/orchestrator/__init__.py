"""The orchestrator room."""
