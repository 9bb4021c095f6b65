"""From pixels between zero and one to what a network and its head say, with gradient."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from bayesvm._core.predictive import log_softmax_pairwise, normal_nodes
from bayesvm.nn._output import HeadOutput

# --- Log probabilities of any output, with gradient, and the average of several outputs.


_NODES = 128


class AveragedOutput(ABC):
    """Several distributions over classes whose mean is the prediction: an ensemble, or passes with dropout.

    One member is a plain softmax layer.
    """

    @abstractmethod
    def member_log_probabilities(self) -> Tensor:
        """Log probabilities of each row, member and class, (N, S, C)."""

    def log_probabilities(self) -> Tensor:
        """Logarithms of the probabilities, finite where they underflow, (N, C)."""
        members = self.member_log_probabilities()
        return torch.logsumexp(members, 1) - math.log(members.shape[1])

    def probabilities(self) -> Tensor:
        """Mean of the members' probabilities, (N, C)."""
        return self.log_probabilities().exp()

    def predict(self) -> Tensor:
        """The most probable class, (N,)."""
        return self.log_probabilities().argmax(1)

    def entropy(self) -> Tensor:
        """Entropy of the probabilities in nats, (N,)."""
        log_p = self.log_probabilities()
        return -(log_p.exp() * log_p).sum(1)

    def mutual_information(self) -> Tensor:
        """Entropy of the mean minus the mean entropy: zero where there is one member, (N,)."""
        members = self.member_log_probabilities()
        within = -(members.exp() * members).sum(2).mean(1)
        return (self.entropy() - within).clamp_min(0.0)

    def variation_ratio(self) -> Tensor:
        """Probability that a label is not the predicted one, (N,)."""
        return self.log_variation_ratio().exp()

    def log_variation_ratio(self) -> Tensor:
        """Its logarithm, by summing the other classes: ordered where the ratio itself underflows, (N,)."""
        log_p = self.log_probabilities()
        others = log_p.scatter(1, log_p.argmax(1, keepdim=True), -torch.inf)
        return torch.logsumexp(others, 1)

    def margin(self) -> Tensor:
        """Difference of the two largest log probabilities, (N,)."""
        best = self.log_probabilities().topk(2, dim=1).values
        return best[:, 0] - best[:, 1]


@dataclass(frozen=True)
class MixtureOutput(AveragedOutput):
    """A mixture given by log probabilities.

    Attributes
    ----------
    members : Tensor of shape (N, S, C)
    """

    members: Tensor

    def member_log_probabilities(self) -> Tensor:
        """Log probabilities of each row, member and class, (N, S, C)."""
        return self.members


def log_probabilities(output: Any) -> Tensor:
    """Logarithms of the class probabilities, with gradient and exact far into the tails, (N, C).

    For the Bayesian head this is the closed form (6.5) at the head's own
    temperature and spread, in double precision: the probabilities of (6.4) come from
    fixed nodes, without gradient.

    Parameters
    ----------
    output : HeadOutput, an output with ``log_probabilities``, or Tensor of shape (N, C)
        A tensor is taken as logits.
    """
    if isinstance(output, HeadOutput):
        T, kappa = output.temperature.double(), output.spread.double()
        return log_softmax_pairwise(output.mean.double(), kappa * output.variance.double(), T)
    if isinstance(output, Tensor):
        return torch.log_softmax(output, 1)
    if hasattr(output, "log_probabilities"):
        found: Tensor = output.log_probabilities()
        return found
    raise TypeError(
        f"cannot tell log probabilities of {type(output).__name__}; give a HeadOutput, logits of shape "
        "(rows, classes), or an object with a method log_probabilities()"
    )


def log_odds_against(log_p: Tensor, y: Tensor) -> Tensor:
    r"""log((1 - p_y) / p_y) of each row, (N,): what an attack raises.

    Its gradient is that of :math:`-\log p_y` divided by :math:`1 - p_y`: the
    same direction, but it does not vanish where the row is certain.
    """
    if bool(((y < 0) | (y >= log_p.shape[1])).any()):  # on a GPU gather would end the process
        raise ValueError(f"y has class {int(y.max())}, but the model has classes 0 to {log_p.shape[1] - 1}")
    own = y[:, None]
    return torch.logsumexp(log_p.scatter(1, own, -torch.inf), 1) - log_p.gather(1, own)[:, 0]


def member_log_probabilities(output: Any) -> tuple[Tensor, Tensor]:
    """Log probabilities of the distributions that an output averages, (N, S, C), and their weights, (S,).

    Of the Bayesian head these are the softmax of the latents at fixed nodes. With gradient.
    """
    if isinstance(output, HeadOutput):
        z = normal_nodes(_NODES, output.mean.shape[1]).to(output.mean)
        f = output.mean[:, None] + (output.spread * output.variance).sqrt()[:, None] * z
        members = torch.log_softmax(output.temperature * f, 2)
    elif isinstance(output, AveragedOutput):
        members = output.member_log_probabilities()
    else:
        members = log_probabilities(output)[:, None]
    S = members.shape[1]
    return members, torch.full((S,), 1.0 / S, dtype=members.dtype, device=members.device)


def in_double(output: Any) -> Any:
    """The same output without gradient and in double precision: scores then do not tie by rounding."""
    if isinstance(output, Tensor):
        return output.detach().double()
    if not is_dataclass(output) or isinstance(output, type):
        raise TypeError(f"an output must be a dataclass of tensors, got {type(output).__name__}")
    values = {f.name: getattr(output, f.name) for f in fields(output)}
    tensors = {k: v.detach().double() for k, v in values.items() if isinstance(v, Tensor)}
    return replace(output, **tensors)


def joined_outputs(outputs: Sequence[Any]) -> Any:
    """Outputs of consecutive rows as one; what does not have a value for each row is that of the first."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return torch.cat(list(outputs))
    names = [f.name for f in fields(first) if getattr(first, f.name).ndim]
    return replace(first, **{name: torch.cat([getattr(o, name) for o in outputs]) for name in names})


# A small step of a probe: one value of a byte.
STEP = 1.0 / 255.0
# Images whose gradient is computed at a time for it.
_STEP_ROWS = 1000


@dataclass(frozen=True)
class Rows:
    """What is known about some images; scores are functions of it.

    Attributes
    ----------
    output : HeadOutput or another output
    features : Tensor of shape (N, D) or None
        What the network gave to the head, where there is one network.
    head : Module or None
    images : Tensor of shape (N, channels, height, width) or None
    model : ImageModel or None
        The model that gave the output; with the images it can be evaluated again.
    """

    output: Any
    features: Tensor | None = None
    head: Any = None
    images: Tensor | None = None
    model: ImageModel | None = None

    @cached_property
    def favourite(self) -> Tensor:
        """The most probable class by the log probabilities that attacks see, (N,)."""
        return log_probabilities(self.output).detach().argmax(1)

    @cached_property
    def stepped(self) -> Rows | None:
        """What the model says after every pixel moved one byte value towards the favourite class.

        Images that were pushed over a boundary lie where the network is
        steep: small steps change much. None where images or model are not
        known. Differentiable, with the direction of the step held fixed.
        """
        if self.images is None or self.model is None:
            return None
        parts = []
        batches = zip(self.images.split(_STEP_ROWS), self.favourite.split(_STEP_ROWS), strict=True)
        for images, favourite in batches:
            with torch.enable_grad():
                x = images.detach().requires_grad_(True)
                against = log_odds_against(self.model(x), favourite)
                (slope,) = torch.autograd.grad(against.sum(), x)
            parts.append(self.model.rows((images - STEP * slope.sign()).clamp(0.0, 1.0)))
        return Rows.joined(parts)

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """Consecutive parts as one."""
        first = parts[0]
        if len(parts) == 1:
            return first
        output = joined_outputs([part.output for part in parts])
        features, images = (_cat([getattr(part, name) for part in parts]) for name in ("features", "images"))
        return Rows(output, features, first.head, images, first.model)

    def __getitem__(self, part: slice) -> Rows:
        """Some of the rows."""
        output = self.output
        if isinstance(output, Tensor):
            taken: Any = output[part]
        else:
            found = {f.name: getattr(output, f.name) for f in fields(output)}
            taken = replace(output, **{k: v[part] for k, v in found.items() if v.ndim})
        features, images = (None if v is None else v[part] for v in (self.features, self.images))
        return Rows(taken, features, self.head, images, self.model)


class ImageModel(nn.Module):
    """A classifier of images as attacks see it: pixels in, log probabilities out, all with gradient.

    Parameters
    ----------
    network : Module, callable, or sequence of them
        Without a head: from images to an output (an object with
        ``log_probabilities``, a HeadOutput, or logits). With a head: from
        images to features. Several are an ensemble, whose prediction is the
        mean of the members' probabilities.
    head : Module, or sequence of as many, or None
    scale : float
        Pixels are multiplied by it first: 255 for a network trained on bytes.
    precision : {"float32", "bf16"}
        In which the network computes, as for ``Recipe``.
    passes : int
        With 2 and more, dropout stays on and the probabilities of so many
        passes are averaged (MC dropout).
    seed : int
        Of the dropout: every call sees the same passes.

    Examples
    --------
    >>> import torch
    >>> from bayesvm.adversarial import ImageModel
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    >>> model = ImageModel(network)
    >>> model(torch.rand(2, 1, 2, 2)).exp().sum(1).allclose(torch.ones(2))
    True
    """

    def __init__(
        self,
        network: Any,
        head: Any = None,
        *,
        scale: float = 1.0,
        precision: str = "float32",
        passes: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        networks = list(network) if _is_several(network) else [network]
        heads = list(head) if _is_several(head) else [head] * (1 if head is not None else len(networks))
        if not networks or len(networks) != len(heads):
            raise ValueError(f"got {len(networks)} networks and {len(heads)} heads; give one head for each")
        if precision not in ("float32", "bf16"):
            raise ValueError(f"precision must be 'float32' or 'bf16', got {precision!r}")
        if passes < 1:
            raise ValueError(f"passes must be at least 1, got {passes}")
        self._networks: list[Callable[[Tensor], Any]] = networks
        self._heads: list[Callable[[Tensor], Any] | None] = heads
        # Registered, so that modes and devices reach them; plain callables are left alone.
        self.parts = nn.ModuleList(m for m in (*networks, *heads) if isinstance(m, nn.Module))
        self.scale, self.precision, self.passes, self.seed = scale, precision, passes, seed
        if passes > 1 and not self._dropouts():
            raise ValueError(f"passes={passes}, but the network has no dropout layer; give passes=1")
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Log probabilities of the classes, (N, C)."""
        return log_probabilities(self.rows(images).output)

    def rows(self, images: Tensor) -> Rows:
        """Output, and where there is one network its features, of images with pixels in [0, 1]."""
        if self.passes > 1:
            with self._dropping(images.device):
                found = [row for _ in range(self.passes) for row in self._each(images)]
        else:
            found = list(self._each(images))
        if len(found) == 1:
            return replace(found[0], images=images, model=self)
        members = [log_probabilities(row.output) for row in found]
        return Rows(MixtureOutput(torch.stack(members, 1)), images=images, model=self)

    @property
    def device(self) -> torch.device:
        """The device of the first weight."""
        first = next(self.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    def _each(self, images: Tensor) -> Iterator[Rows]:
        """The output of each member."""
        pixels = images * self.scale if self.scale != 1.0 else images
        for network, head in zip(self._networks, self._heads, strict=True):
            with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16"):
                value = network(pixels)
            if head is None:
                yield Rows(_as_output(value))
            else:
                features = value.float() if value.dtype == torch.bfloat16 else value
                yield Rows(_as_output(head(features)), features, head)

    def _dropouts(self) -> list[nn.Module]:
        return [m for m in self.modules() if isinstance(m, nn.modules.dropout._DropoutNd)]

    @contextmanager
    def _dropping(self, device: torch.device) -> Iterator[None]:
        """Dropout on, always with the same draws; the caller's random numbers are left alone."""
        before = [(m, m.training) for m in self._dropouts()]
        forked = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
        with forked if self.passes > 1 else nullcontext():
            torch.manual_seed(self.seed)
            for module, _ in before:
                module.train()
            try:
                yield
            finally:
                for module, mode in before:
                    module.train(mode)


def _is_several(value: Any) -> bool:
    return isinstance(value, (Sequence, nn.ModuleList))


def _cat(parts: list[Tensor | None]) -> Tensor | None:
    known = [part for part in parts if part is not None]
    return torch.cat(known) if known else None


def _as_output(value: Any) -> Any:
    """Logits are an output of one member."""
    return MixtureOutput(torch.log_softmax(value, 1)[:, None]) if isinstance(value, Tensor) else value
