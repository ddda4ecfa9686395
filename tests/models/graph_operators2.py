"""Makers of random nodes: products, windows, norms, samples, recurrent layers, quantisation, signals, control flow."""
import numpy as np
from onnx import TensorProto, helper

from graph_generator import FLOATS, INTEGERS, NUMBERS, TYPES, Skip, proto_type
from graph_operators import maker
