"""Wants more ranks than there are."""

from ranks import join
from torch.distributed.device_mesh import init_device_mesh
from training import train

join(1)
train(1)
init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
