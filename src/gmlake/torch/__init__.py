"""GMLake inside PyTorch: the plug-in. The allocator itself is native; here it is put in place and shown.

activation   puts the native callbacks in PyTorch's place for them
shim         makes torch.cuda.memory and torch.accelerator.memory answer from GMLake
history      records where allocations come from
snapshot     what PyTorch's memory snapshots show
looking      gmlake.stats, gmlake.summary and the log
recording    gmlake.record
"""
