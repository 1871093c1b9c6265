"""Facts about IR for several passes; analyses change no IR."""
