"""The spawner room: makes the containers that candidates run in. Only it reaches the engine."""
