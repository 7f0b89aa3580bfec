"""The command line: one file per command, which parses, calls one library function and renders."""
