"""The executors room: plug-ins that run one command in one single-use sandbox."""
