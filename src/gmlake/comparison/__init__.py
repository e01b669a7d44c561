"""One command under several allocators: run after run, and what they come to.

output    what a run writes, kept in a file and followed while it grows
display   the line on the terminal while a run is under way
trials    the runs
smallest  the least memory on which each of them completes
table     the comparison as text
"""
