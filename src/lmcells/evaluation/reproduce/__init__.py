"""The paper's whole protocol from one file: corpus, models, seeds, datasets and report, in steps that can be resumed.

protocol = load_protocol(Path("configs/open.toml"))
steps = plan_steps(protocol, Workspace(Path("build/open")))
execute(steps, steps.matching(["train/lmc-*"]), jobs=4)
"""

from lmcells.evaluation.reproduce.execution import execute
from lmcells.evaluation.reproduce.plan import plan_steps
from lmcells.evaluation.reproduce.protocol_file import load_protocol
from lmcells.evaluation.reproduce.steps import Step, Steps, Workspace

__all__ = ["Step", "Steps", "Workspace", "execute", "load_protocol", "plan_steps"]
