"""The command `keelfs`: commands are found by their names and loaded when they are asked for."""
