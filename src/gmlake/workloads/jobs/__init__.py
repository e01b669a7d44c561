"""What runs on the emulated device while a workload is recorded: ordinary training code for a GPU.

`python -m gmlake.workloads.jobs JOB` trains for as many steps as JOB, a JSON object, has shapes. A *task* (text,
generation, images, diffusion) makes the model and its batches, an *engine* (none, zero3, fsdp2, gemini) spreads it
over the ranks. Nothing here knows the emulated device, but for two things that are not worth computing there: the
routes of a mixture of experts (routing.py), and what an offloaded optimizer does on the host (host.py).
"""
