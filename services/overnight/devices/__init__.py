"""Devices of this host: GPUs and their MIG instances through NVML, processor slots by number.

Not run on a GPU: all of it is tested against a stand-in for NVML (docs/gpus.md).
"""
