"""Facts about IR that several passes ask for; nothing is changed here."""
