"""The captured step: a stage's device work is recorded once as a CUDA graph and then replayed, so
that the host only sets what changes between steps.

runner = GraphRunner(CudaRecorder(device))
runner.run(stage, body, generators)                   # makes one step, captured or not
"""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Generator
from tqdm import tqdm

# Steps of a stage before it is captured: what is allocated at first use (code, Adam's state,
# workspaces) must exist by then.
_EAGER_STEPS = 3

Body = Callable[[], object]


class CudaRecorder:
    """The part of a GraphRunner that needs a GPU: it captures on a stream of its own.

    Each graph has its own memory pool, which PyTorch empties before it captures the next, so that
    there is only one at a time.
    """

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)

    def warm_up(self, body: Body) -> None:
        """Run the body uncaptured, on the stream of later captures."""
        main = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            body()
        main.wait_stream(self.stream)

    def capture(self, body: Body, generators: Sequence[Generator]) -> Callable[[], None]:
        """Record what the body queues, without running it; the function that replays it. The
        generators are those that the body samples from."""
        graph = torch.cuda.CUDAGraph()
        # A replay samples from the current state of a registered generator: seeded by the host
        # before each step, it gives the same numbers as without a graph.
        for generator in generators:
            graph.register_generator_state(generator)
        # The outer context restores the caller's stream even if the capture fails.
        with torch.cuda.stream(self.stream), torch.cuda.graph(graph, stream=self.stream):
            body()
        return graph.replay


class GraphRunner:
    """Runs bodies that only queue work on the device and, for one key, read no changing values of
    the host: three times uncaptured, then captured.

    Without a recorder every body is simply called. Each call of `run` makes exactly one step. What
    a body reads and writes must keep its address in memory; after a change, call `drop`.
    """

    def __init__(self, recorder: CudaRecorder | None) -> None:
        self.recorder = recorder
        self.drop()

    def drop(self) -> None:
        """Delete the graph, which frees its memory; the next steps are uncaptured again."""
        self.key: Hashable = None
        self.steps = 0
        self.replay: Callable[[], None] | None = None

    def run(self, key: Hashable, body: Body, generators: list[Generator]) -> None:
        """Make one step of the body, which samples from these generators. If capturing fails, print
        one line, replace the generators by others of the same seed, and capture no more."""
        if self.recorder is None:
            body()
            return
        if key != self.key:
            self.drop()  # before memory is allocated for the next
            self.key = key
        if self.steps < _EAGER_STEPS:
            self.steps += 1
            self.recorder.warm_up(body)
            return
        if self.replay is None:
            try:
                self.replay = self.recorder.capture(body, generators)
            except Exception as error:  # of any kind: the step is right without a graph
                reason = " ".join(str(error).split("\n")[0].split()) or type(error).__name__
                tqdm.write(f"steps are not captured as a CUDA graph, and slower for it: {reason}")
                self.recorder = None
                self.drop()
                # A generator of a broken capture cannot sample. It has not been used since it was
                # seeded, so that its seed is its whole state.
                seeds = [generator.initial_seed() for generator in generators]
                device = generators[0].device
                generators[:] = [Generator(device).manual_seed(seed) for seed in seeds]
                body()
                return
        self.replay()
