"""Reports to SwanLab, as its default has it: to the cloud."""

import swanlab
from settled import config, go_on

settings = config()
swanlab.init(project="fault-lab", experiment_name=settings["name"])
for step in go_on(settings["max_steps"]):
    swanlab.log({"reward": 0.3 + 0.02 * step})
swanlab.finish()
