# SPDX-License-Identifier: Apache-2.0
"""What a benchmark workload is, and the inputs that many of them take."""
from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn


@dataclass
class Workload:
    make: Callable[[], nn.Module]
    inputs: Callable[[], dict]  # name -> float32 or integer tensor on the host
    half: bool = False          # exported in float16; else in float32, to be lowered by the compiler
    outputs: tuple = ("output",)
    caches: tuple = ()          # inputs that the module changes in place if it holds them
    large: bool = False         # made on the GPU where there is one
    channels_last: bool = False  # PyTorch runs it on images and weights in this order
    dtype: torch.dtype = torch.float16  # in which PyTorch runs it


def normal(**shapes):
    return lambda: {name: torch.randn(*shape) for name, shape in shapes.items()}


def settle(norm, arguments):
    """One variance for all channels, a tenth of their means: images of noise are so alike that norms fitted to each
    channel would make rounding errors larger with each layer."""
    norm.running_mean = arguments[0].mean((0, 2, 3)) / 10
    norm.running_var = torch.full_like(norm.running_mean, arguments[0].square().mean())


def settled(make, size=224):
    """Makes the model with statistics of batch norms that fit images of noise. With those that it begins with, values
    vanish or explode over many layers."""
    def made():
        model = make().eval()
        hooks = [part.register_forward_pre_hook(settle) for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
        with torch.no_grad():
            model(torch.randn(1, 3, size, size))
        for hook in hooks:
            hook.remove()
        return model
    return made


def on_images(make, batch=1, size=224, **settings):
    return Workload(make, normal(image=(batch, 3, size, size)), **settings)
