"""program.md: a person's plan for a session. Begun, checked, and carried on beside, never over."""
