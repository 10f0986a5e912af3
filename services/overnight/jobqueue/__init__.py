"""The only room that talks to Redis: the job queue, the ledger stream, leases and flags."""
