"""The ledger: one hash-chained, fsynced line for everything that happened. The truth."""
