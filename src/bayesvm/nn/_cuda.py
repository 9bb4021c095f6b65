"""A step of training as a CUDA graph: recorded once, then replayed without Python between its kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bayesvm.nn._head import BayesianSVMHead
from bayesvm.nn._recipe import HeadError

# Steps before the recording: kernels are chosen and memory is laid out.
_PLAIN_STEPS = 3

Sums = tuple[Tensor, Tensor]


class ReplayedStep:
    """A step that is executed plainly at first, then recorded, then replayed.

    A step of a small network is hundreds of small kernels, and starting them
    one by one takes longer than running them (docs/nn.md has clocks).

    Parameters
    ----------
    step : callable
        ``step(rows, labels)`` does all of a step on the device and gives
        loss and likelihood. Shapes must stay the same.
    head : Module
        Its work beside the network gets a stream of its own.
    device : torch.device
    """

    def __init__(self, step: Callable[[Tensor, Tensor], Sums], head: nn.Module, device: torch.device) -> None:
        self._step, self._head, self._device = step, head, device
        self._side = torch.cuda.Stream(device)
        self._beside = torch.cuda.Stream(device)
        self._n_plain = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, rows: Tensor, labels: Tensor) -> Sums:
        """Do a step; the result is overwritten by the next one."""
        if self._graph is None and self._n_plain < _PLAIN_STEPS:
            self._n_plain += 1
            return self._plain(rows, labels)
        if self._graph is None:
            self._record(rows, labels)
        assert self._graph is not None
        self._rows.copy_(rows)
        self._labels.copy_(labels)
        self._graph.replay()
        return self._sums

    def close(self) -> None:
        """Give the memory of the recording back."""
        if self._graph is not None:
            self._graph.reset()
            self._graph = None

    def _plain(self, rows: Tensor, labels: Tensor) -> Sums:
        main = torch.cuda.current_stream(self._device)
        self._side.wait_stream(main)
        with torch.cuda.stream(self._side), self._overlapped():
            sums = self._step(rows, labels)
        main.wait_stream(self._side)
        return sums

    @contextmanager
    def _overlapped(self) -> Iterator[None]:
        """The head's work beside the network; its parameters are then used on two streams, as intended."""
        if not isinstance(self._head, BayesianSVMHead):
            yield
            return
        with warnings.catch_warnings(), self._head.beside(self._beside):
            warnings.filterwarnings("ignore", "The AccumulateGrad node's stream does not match")
            yield

    def _record(self, rows: Tensor, labels: Tensor) -> None:
        self._rows, self._labels = rows.clone(), labels.clone()
        graph = torch.cuda.CUDAGraph()
        # Where recording fails, the current stream is otherwise not put back.
        again = torch.cuda.stream(torch.cuda.current_stream(self._device))
        try:
            with again, torch.cuda.graph(graph, stream=self._side), self._overlapped():
                self._sums = self._step(self._rows, self._labels)
        except HeadError:
            raise
        except RuntimeError as error:
            self._release_generator()
            raise RuntimeError(
                "the step could not be recorded as a CUDA graph: what it runs must not look at numbers on "
                f"the host or depend on them in shape. Train with graph=False. ({error})"
            ) from error
        self._graph = graph

    def _release_generator(self) -> None:
        """Let dropout work again: after a recording that failed torch believes that one is going on."""
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=self._side):
            torch.zeros((), device=self._device)
