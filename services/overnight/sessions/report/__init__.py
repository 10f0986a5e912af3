"""What a session's ledger says to a person: points, summary, page. Computed; nothing is guessed."""
