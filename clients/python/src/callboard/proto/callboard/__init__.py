"""Generated from the protocol files by generate.py."""
