"""The whole config of a swarm, checked: of a job, or of a file that changes some of it.

python show_config.py [FILE]
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from trainer_core.swarm.job import AgentJetJob

job = AgentJetJob(experiment_name="example", model="tiny", batch_size=8, num_repeat=4)
if len(sys.argv) > 1:
    job.build_job_from_yaml(sys.argv[1])
with TemporaryDirectory() as folder:
    path = Path(folder, "job.yaml")
    job.dump_job_as_yaml(str(path))
    print(path.read_text())
