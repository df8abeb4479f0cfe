#!/usr/bin/env python3
"""The peer of runnel-bench: the loop that a PyTorch user would write for the same work.

Online learning, batch size one: each example is predicted, scored, and learned from; after every
`stride` of them (the window is as long) one truncated backpropagation, clipping and optimizer step.
Layer-normalized GRU and LSTM cells as in docs/design.md, from nn.Linear and functional.layer_norm; the
fused optimizer where there is one; one thread; no torch.compile unless asked for.

On the CPU each loss is read as it comes; on a GPU (--device cuda) those of a window together, since
every reading is a wait. Variants, measured in turn in one process:

    eager      that loop
    graphs     the whole step of a window captured once as a CUDA graph, and replayed
    reference  nn.LSTM or nn.GRU (cuDNN on a GPU) over a window at once: no normalization, so not the
               same model, but the fastest that PyTorch has

    python3 pytorch.py --cell lstm --size 128 --inputs 32 --loss squared --outputs 32
    python3 pytorch.py --device cuda --variants eager,graphs,reference --size 1024 --cell gru

Needs PyTorch: python3 -m venv torch && torch/bin/pip install torch
"""
import argparse
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

EPSILON = 1e-5


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.shape = (size,)
        self.gain = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, a):
        return F.layer_norm(a, self.shape, self.gain, self.bias, EPSILON)


class LSTM(nn.Module):
    def __init__(self, inputs, size):
        super().__init__()
        self.size = size
        self.ih = nn.Linear(inputs, 4 * size)
        self.hh = nn.Linear(size, 4 * size, bias=False)
        self.norm_ih, self.norm_hh, self.norm_c = Norm(4 * size), Norm(4 * size), Norm(size)

    def start(self):
        return torch.zeros(1, self.size), torch.zeros(1, self.size)

    def forward(self, x, state):
        h, c = state
        a = self.norm_ih(self.ih(x)) + self.norm_hh(self.hh(h))
        i, f, g, o = a.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(self.norm_c(c))
        return h, (h, c)


class GRU(nn.Module):
    def __init__(self, inputs, size):
        super().__init__()
        self.size = size
        self.ih = nn.Linear(inputs, 3 * size)
        self.hh = nn.Linear(size, 3 * size, bias=False)
        self.gates_ih, self.gates_hh = Norm(2 * size), Norm(2 * size)
        self.new_ih, self.new_hh = Norm(size), Norm(size)

    def start(self):
        return (torch.zeros(1, self.size),)

    def forward(self, x, state):
        (h,) = state
        split = (2 * self.size, self.size)
        x_gates, x_new = self.ih(x).split(split, 1)
        h_gates, h_new = self.hh(h).split(split, 1)
        gates = torch.sigmoid(self.gates_ih(x_gates) + self.gates_hh(h_gates))
        r, z = gates.chunk(2, 1)
        n = torch.tanh(self.new_ih(x_new) + r * self.new_hh(h_new))
        h = n + z * (h - n)
        return h, (h,)


class Network(nn.Module):
    def __init__(self, cell, inputs, size, layers, outputs):
        super().__init__()
        self.layers = nn.ModuleList(cell(size if n else inputs, size) for n in range(layers))
        self.output = nn.Linear(size, outputs)

    def start(self):
        return [layer.start() for layer in self.layers]

    def forward(self, x, states):
        after = []
        for layer, state in zip(self.layers, states):
            x, state = layer(x, state)
            after.append(state)
        return self.output(x), after


def mixture_loss(a, y, components):
    """Graves (2013), eq. 26: bivariate normals over y1 and y2, and the probability of an end."""
    end, rest = a[:, 0], a[:, 1:].view(-1, 6, components)
    logit, m1, m2, s1, s2, r = rest.unbind(1)
    rho = torch.tanh(r)
    d1, d2 = (y[:, 0:1] - m1) * torch.exp(-s1), (y[:, 1:2] - m2) * torch.exp(-s2)
    rest = 1 - rho * rho
    z = (d1 * d1 + d2 * d2 - 2 * rho * d1 * d2) / rest
    density = -0.5 * (z + torch.log(rest)) - math.log(2 * math.pi) - s1 - s2
    joint = torch.logsumexp(F.log_softmax(logit, 1) + density, 1)
    return (F.binary_cross_entropy_with_logits(end, y[:, 2]) - joint).mean()


def generate(inputs, outputs, mixture, count=1024):
    steps = torch.arange(count)[:, None] / count * 2 * math.pi
    x = torch.sin(steps * (1 + torch.arange(inputs) * 5 % 31)) + 0.1 * torch.randn(count, inputs)
    y = torch.sin(steps * (1 + torch.arange(outputs) * 5 % 31) + 1)
    if mixture:
        y[:, 2] = (y[:, 2] > 0).float()
    return x.unsqueeze(1), y.unsqueeze(1)


class Reference(nn.Module):
    """Layers as PyTorch has them: a window in, a window out."""

    def __init__(self, cell, inputs, size, layers, outputs):
        super().__init__()
        self.layers = cell(inputs, size, layers)
        self.output = nn.Linear(size, outputs)

    def start(self):
        state = self.layers.all_weights[0][1].new_zeros(self.layers.num_layers, 1,
                                                        self.layers.hidden_size)
        return (state, state.clone()) if isinstance(self.layers, nn.LSTM) else (state,)

    def forward(self, x, states):
        h, after = self.layers(x, states if len(states) > 1 else states[0])
        return self.output(h), after if isinstance(after, tuple) else (after,)


def optimizer_for(options, parameters, capturable):
    how = {options.adam: True}
    if options.optimizer == "sgd":
        return torch.optim.SGD(parameters, options.rate, **how)
    return torch.optim.Adam(parameters, options.rate, capturable=capturable, **how)


def make_network(options, cells, network):
    """With what the loss needs; on the device, from the same random numbers every time."""
    torch.manual_seed(1)
    mixture = options.loss == "mixture"
    width = 6 * options.components + 1 if mixture else options.outputs
    with torch.device(options.device):
        made = network(cells[options.cell], options.inputs, options.size, options.layers, width)
        x, y = generate(options.inputs, options.outputs, mixture)
    return made, x, y


class Learner:
    """The eager loop."""

    capturable = False

    def __init__(self, options):
        self.network, self.x, self.y = self.make(options)
        self.step = torch.compile(self.network) if options.compile else self.network
        mixture = options.loss == "mixture"
        self.loss = (lambda a, y: mixture_loss(a, y, options.components)) if mixture else F.mse_loss
        self.parameters = list(self.network.parameters())
        self.optimizer = optimizer_for(options, self.parameters, self.capturable)
        self.stride, self.clip = options.stride, options.clip
        self.at_once = options.device != "cpu"  # losses of a window are read together
        with torch.device(options.device):
            self.states = self.network.start()
        self.pending, self.examples, self.scores = [], 0, 0.0

    @staticmethod
    def make(options):
        return make_network(options, {"lstm": LSTM, "gru": GRU}, Network)

    def update(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimizer.step()

    def learn(self, x, y):
        """One example: predict, score, and after every `stride` of them learn."""
        prediction, self.states = self.step(x, self.states)
        loss = self.loss(prediction, y)
        if not self.at_once:
            self.scores += loss.item()
        self.pending.append(loss)
        if len(self.pending) < self.stride:
            return
        self.update(sum(self.pending) / self.stride)
        if self.at_once:
            self.scores += sum(torch.stack([loss.detach() for loss in self.pending]).tolist())
        self.pending = []
        self.states = [tuple(part.detach() for part in state) for state in self.states]

    def run(self, count):
        for _ in range(count):
            row = self.examples % len(self.x)
            self.learn(self.x[row], self.y[row])
            self.examples += 1

    def window(self):
        """The next window of the data, (stride, 1, numbers) each."""
        row = self.examples % (len(self.x) - self.stride + 1)
        self.examples += self.stride
        return self.x[row:row + self.stride], self.y[row:row + self.stride]


class GraphLearner(Learner):
    """A window's whole step as one CUDA graph: inputs, states and losses stay where they are."""

    capturable = True
    WARM_UP = 3

    def __init__(self, options):
        super().__init__(options)
        self.inputs, self.targets = (part[:self.stride].clone() for part in (self.x, self.y))
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(self.WARM_UP):
                self.learn_window()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.losses = self.learn_window()

    def learn_window(self):
        """From self.inputs and self.targets; the states are changed in place."""
        states, losses = self.states, []
        for x, y in zip(self.inputs, self.targets):
            prediction, states = self.step(x, states)
            losses.append(self.loss(prediction, y))
        self.update(sum(losses) / self.stride)
        for kept, state in zip(self.states, states):
            for to, part in zip(kept, state):
                to.copy_(part.detach())
        return torch.stack([loss.detach() for loss in losses])

    def run(self, count):
        for _ in range(count // self.stride):
            x, y = self.window()
            self.inputs.copy_(x)
            self.targets.copy_(y)
            self.graph.replay()
            self.scores += sum(self.losses.tolist())


class ReferenceLearner(Learner):
    @staticmethod
    def make(options):
        return make_network(options, {"lstm": nn.LSTM, "gru": nn.GRU}, Reference)

    def run(self, count):
        for _ in range(count // self.stride):
            x, y = self.window()
            prediction, states = self.step(x, self.states)
            loss = self.loss(prediction.flatten(0, 1), y.flatten(0, 1))
            self.update(loss)
            self.states = tuple(state.detach() for state in states)
            self.scores += loss.item() * self.stride


VARIANTS = {"eager": Learner, "graphs": GraphLearner, "reference": ReferenceLearner}


def measure(options, variant="eager"):
    """Seconds for an example, one number a slice."""
    learner = VARIANTS[variant](options)
    learner.run(2 * options.stride)
    slices, end = [], time.perf_counter() + options.seconds
    while len(slices) < 3 or time.perf_counter() < end:
        begin, count = time.perf_counter(), 0
        while time.perf_counter() < begin + options.slice:
            learner.run(options.stride)
            count += options.stride
        slices.append((time.perf_counter() - begin) / count)
    if not math.isfinite(learner.scores):
        raise SystemExit("pytorch.py: the loss is not finite")
    return slices, sum(p.numel() for p in learner.parameters)


def measure_variant(options, variant):
    """What failed is told: a graph that cannot be captured, a network that does not fit."""
    try:
        slices, parameters = measure(options, variant)
    except Exception as failure:
        lines = str(failure).strip().splitlines() or [""]
        return {"failed": f"{type(failure).__name__}: {lines[0]}"}
    return {"parameters": parameters,
            "us": {"median": statistics.median(slices) * 1e6, "minimum": min(slices) * 1e6,
                   "slices": len(slices)}}


def print_variants(options):
    found = {variant: measure_variant(options, variant) for variant in options.variants}
    if options.json:
        print(json.dumps({"torch": torch.__version__, "variants": found}))
        return
    for variant, result in found.items():
        text = result.get("failed") or f"{result['us']['median']:.1f} microseconds an example"
        print(f"PyTorch {torch.__version__}, {options.device}, {variant}: {text}")


def variants(text):
    names = text.split(",")
    for name in names:
        if name not in VARIANTS:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(VARIANTS)}")
    return names


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cell", choices=["lstm", "gru"], default="lstm")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=32)
    parser.add_argument("--loss", choices=["squared", "mixture"], default="squared")
    parser.add_argument("--outputs", type=int, default=32, help="numbers in a target")
    parser.add_argument("--components", type=int, default=20, help="of the mixture")
    parser.add_argument("--stride", type=int, default=16, help="and window")
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--adam", choices=["fused", "foreach"], default="fused",
                        help="how the optimizer goes through the parameters")
    parser.add_argument("--compile", action="store_true", help="torch.compile the network")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--variants", type=variants, metavar="NAME,...",
                        help="several in turn: " + ", ".join(VARIANTS))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--slice", type=float, default=0.25, help="seconds in one measurement")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # float32 is what runnel computes in
    if options.variants:
        print_variants(options)
        return
    slices, parameters = measure(options)
    median, best = statistics.median(slices) * 1e6, min(slices) * 1e6
    if options.json:
        print(json.dumps({"torch": torch.__version__, "parameters": parameters,
                          "us": {"median": median, "minimum": best, "slices": len(slices)}}))
    else:
        print(f"PyTorch {torch.__version__}, one thread, {parameters} parameters: "
              f"{median:.1f} microseconds an example (best {best:.1f})")


if __name__ == "__main__":
    main()
