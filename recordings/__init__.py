"""Scripts that write the records in chapter18/data; each says what it needs."""
