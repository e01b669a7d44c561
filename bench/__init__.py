"""Benchmarks, each a module named after the question it answers. Nothing here runs with the tests."""
