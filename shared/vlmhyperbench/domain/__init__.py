"""Pure rules of the product: specs, states, planning, scheduling. No I/O, no clock.

Importing it imports nothing else.
"""
