"""Writes the record to where RECORD_SINKS says. Each sink has a queue and a thread, so that none delays another."""
