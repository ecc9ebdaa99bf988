"""Generated from the description of the HTTP doors by generate.py."""
