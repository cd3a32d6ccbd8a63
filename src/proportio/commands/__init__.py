"""The subcommands: each parses, calls the library and prints. Only `proportio.cli` knows them all."""
