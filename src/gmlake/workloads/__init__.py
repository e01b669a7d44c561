"""Workloads: training jobs described in small files, recorded with real model code, replayed on every allocator.

`catalogue` says which there are, `recording` makes their traces on the emulated device (`jobs` is what runs there),
`running` replays them and keeps the results, `tables` sets them beside published figures.
"""
