"""This machine: its GPUs, cores, memory, disks and ports, within the limits of the container we are in.

Rooms: `gpus` (states, who uses them, what CUDA_VISIBLE_DEVICES leaves), `memory` (memory and cores under
control groups), `disk` (room on a file system), `ports` (free, taken, by whom). Nothing here is changed or
ended. The driver of the GPUs is asked by `monitors.gpus`.
"""
