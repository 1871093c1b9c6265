"""Plans for people: text, HTML, pictures."""
