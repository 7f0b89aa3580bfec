"""Adam, its state as plain tensors, and gradients that are measured and clipped."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

STATE = ("step", "exp_avg", "exp_avg_sq")


def create_optimizer(model: nn.Module, *, learning_rate: float) -> torch.optim.Adam:
    """Adam in one fused pass over all parameters, in a form that a CUDA graph can hold."""
    parameters = list(model.parameters())
    device = parameters[0].device
    rate = torch.tensor(learning_rate, device=device)
    return torch.optim.Adam(parameters, lr=rate, fused=True, capturable=device.type == "cuda")


def set_learning_rate(optimizer: torch.optim.Adam, learning_rate: float) -> None:
    """Change the rate of the steps to come, those of a captured graph too."""
    optimizer.param_groups[0]["lr"].fill_(learning_rate)


def clip_gradients(parameters: Iterable[nn.Parameter], *, max_norm: float) -> Tensor:
    """Scale all gradients down to a joint norm of at most `max_norm`, unless it is 0; return the norm before.

    It never waits for the device.
    """
    parameters = [parameter for parameter in parameters if parameter.grad is not None]
    norm = get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    if max_norm > 0:
        clip_grads_with_norm_(parameters, max_norm, norm)
    return norm


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Adam) -> dict[str, Tensor]:
    """Step and moments of each parameter, by name: `exp_avg.prior.hidden.weight`."""
    return {
        f"{entry}.{name}": optimizer.state[parameter][entry]
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
        for entry in STATE
    }


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Adam, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` returned."""
    for name, parameter in model.named_parameters():
        if f"step.{name}" in tensors:
            optimizer.state[parameter] = {
                entry: tensors[f"{entry}.{name}"].to(parameter.device, copy=True) for entry in STATE
            }
