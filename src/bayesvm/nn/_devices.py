"""Where a step runs: beside other processes, on a second CUDA stream, as a replayed CUDA graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, distributed

from bayesvm.nn._recipe import HeadError

# --- Processes that train together.


def rank_and_size() -> tuple[int, int]:
    """Number of this process, and how many there are."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def from_all(x: Tensor) -> Tensor:
    """The rows of x of every process, one after the other; all must have as many.

    Rows are gathered, not sums over rows: B (P + 4) numbers a process instead
    of C (P^2 + P), and every process then takes the same step.
    """
    _, size = rank_and_size()
    if size == 1:
        return x
    x = x.contiguous()
    parts = [torch.empty_like(x) for _ in range(size)]
    distributed.all_gather(parts, x)
    return torch.cat(parts)


# --- CUDA streams and graphs.

# Steps before the recording: kernels are chosen and memory is laid out.
_PLAIN_STEPS = 3

Sums = tuple[Tensor, Tensor]


def may_wait() -> bool:
    """Whether the host may read values, which it must not while a CUDA graph is captured."""
    if torch.compiler.is_compiling():
        return False
    return not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


class SideStream:
    """A second stream for one step: what needs no rows before the network is done, and q after it.

    What does not depend on rows is prepared while the network computes
    features, and q moves while gradients go back through the network.

    Parameters
    ----------
    stream : torch.cuda.Stream
        Another one than the current one.
    device : torch.device
    """

    def __init__(self, stream: torch.cuda.Stream, device: torch.device) -> None:
        self._stream, self._device = stream, device
        self._prepared: Any = None
        # What the other stream still reads; memory of this one may not be used again meanwhile.
        self._in_use: list[Any] = []

    @contextmanager
    def around(self, prepare: Callable[[], Any]) -> Iterator[None]:
        """A step, at whose end the current stream waits for the other one."""
        main = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(main)
        try:
            with torch.cuda.stream(self._stream):
                self._prepared = prepare()
            yield
        finally:
            # Waiting fails where a recording has failed, and must not leave half a step behind.
            in_use, self._in_use = self._in_use, []
            self._prepared = None
            main.wait_stream(self._stream)
            in_use.clear()

    @torch.compiler.disable
    def joined(self, prepare: Callable[[], Any]) -> Any:
        """What was prepared, once the other stream has it; for further parts of a batch made here."""
        prepared, self._prepared = self._prepared, None
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
        return prepare() if prepared is None else prepared

    @torch.compiler.disable
    def run(self, function: Callable[..., None], prepared: Any, *arguments: Any) -> None:
        """Call a function on the other stream, for which what is in use is kept alive."""
        self._in_use.append((prepared, arguments))
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.no_grad(), torch.cuda.stream(self._stream):
            function(*arguments)


class ReplayedStep:
    """A step that is executed plainly at first, then recorded as a CUDA graph, then replayed.

    A step of a small network is hundreds of small kernels, and starting them
    one by one from Python takes longer than running them (docs/nn.md has clocks).

    Parameters
    ----------
    step : callable
        ``step(rows, labels)`` does all of a step on the device and gives
        loss and likelihood. Shapes must stay the same.
    beside : callable or None
        ``BayesianSVMHead.beside``: its work gets a stream of its own.
    device : torch.device
    """

    def __init__(
        self,
        step: Callable[[Tensor, Tensor], Sums],
        beside: Callable[[torch.cuda.Stream], AbstractContextManager[None]] | None,
        device: torch.device,
    ) -> None:
        self._step, self._beside, self._device = step, beside, device
        self._main = torch.cuda.Stream(device)
        self._side = torch.cuda.Stream(device)
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
        current = torch.cuda.current_stream(self._device)
        self._main.wait_stream(current)
        with torch.cuda.stream(self._main), self._overlapped():
            sums = self._step(rows, labels)
        current.wait_stream(self._main)
        return sums

    @contextmanager
    def _overlapped(self) -> Iterator[None]:
        """The head's work beside the network; its parameters are then used on two streams, as intended."""
        if self._beside is None:
            yield
            return
        with warnings.catch_warnings(), self._beside(self._side):
            warnings.filterwarnings("ignore", "The AccumulateGrad node's stream does not match")
            yield

    def _record(self, rows: Tensor, labels: Tensor) -> None:
        self._rows, self._labels = rows.clone(), labels.clone()
        graph = torch.cuda.CUDAGraph()
        # Where recording fails, the current stream is otherwise not put back.
        again = torch.cuda.stream(torch.cuda.current_stream(self._device))
        try:
            with again, torch.cuda.graph(graph, stream=self._main), self._overlapped():
                self._sums = self._step(self._rows, self._labels)
        except HeadError:
            raise
        except RuntimeError as error:
            self._release_generator()
            raise RuntimeError(
                "the step could not be recorded as a CUDA graph: what it runs must not read numbers on "
                f"the host or depend on them in shape. Train with graph=False. ({error})"
            ) from error
        self._graph = graph

    def _release_generator(self) -> None:
        """Make dropout work again: torch does not end the state of recording when a recording fails."""
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=self._main):
            torch.zeros((), device=self._device)
