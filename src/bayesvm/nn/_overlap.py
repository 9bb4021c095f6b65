"""Work of the head that a network need not wait for, on a stream of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bayesvm.nn._posterior import Ready
from bayesvm.nn._recipe import HeadError


class OverlapMixin:
    """For a head that has ``_prepared``, ``_learn`` and ``_forget_parts``."""

    points: Tensor
    _is_started: bool
    _n_rows: int
    _ready: Ready | None
    _beside: torch.cuda.Stream | None
    # What the other stream still reads; memory of this one may not be used again meanwhile.
    _in_use: list[Any]

    if TYPE_CHECKING:

        def _prepared(self, n_rows: int = 0) -> Ready: ...

        def _learn(self, *learned: Any) -> None: ...

        def _forget_parts(self) -> None: ...

    @contextmanager
    def beside(self, stream: torch.cuda.Stream) -> Iterator[None]:
        """Around one step on a GPU: let what the network need not wait for run beside it.

        What does not depend on rows is done while the network computes
        features, and q moves while gradients go back through the network.
        At the end the current stream waits for the other one. Worth it where
        the step is recorded as a CUDA graph.

        Parameters
        ----------
        stream : torch.cuda.Stream
            Another one than the current one.

        Raises
        ------
        HeadError
            If the head has not been started: see ``initialise``.
        """
        if not self._is_started:
            raise HeadError("the head must be started before its work is put on a stream: call initialise()")
        main = torch.cuda.current_stream(self.points.device)
        stream.wait_stream(main)
        self._beside = stream
        try:
            with torch.cuda.stream(stream):
                self._ready = self._prepared(self._n_rows)
            yield
        except BaseException:
            self._forget_parts()
            raise
        finally:
            # Waiting fails where a recording has failed, and must not leave half a step behind.
            in_use, self._in_use = self._in_use, []
            self._beside = self._ready = None
            main.wait_stream(stream)
            in_use.clear()

    @torch.compiler.disable
    def _joined(self) -> Ready:
        """The same, once the other stream has it; for further parts of a batch made here."""
        ready, self._ready = self._ready, None
        assert self._beside is not None
        torch.cuda.current_stream(self.points.device).wait_stream(self._beside)
        return self._prepared() if ready is None else ready

    @torch.compiler.disable
    def _learn_aside(self, ready: Ready, *learned: Any) -> None:
        """Learn on the other stream, for which what is in use is kept alive."""
        assert self._beside is not None
        self._in_use.append((ready, learned))
        self._beside.wait_stream(torch.cuda.current_stream(self.points.device))
        with torch.no_grad(), torch.cuda.stream(self._beside):
            self._learn(*learned)
