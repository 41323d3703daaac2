"""The command line: doors that parse, call and print; what they call lives in other rooms."""
