"""Collectives and messages that only move elements. Elements of dtypes that the engine does not know move as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from paceline._engine import CollectiveCall
from paceline.torch import checks
from paceline.torch.checks import Rows, Tensors
from paceline.torch.dispatched import USUAL, handled, modes
from paceline.torch.futures import callbacks
from paceline.torch.opaque import opaque
from paceline.torch.staging import NOTHING, Copies, Span, adjacent, plain, plain_output, slices, span
from paceline.torch.starting import Starting
from paceline.torch.tables import code_of
from paceline.torch.work import DONE, ReceivedWork

ANY_SOURCE = -1
_BARRIER = CollectiveCall("barrier")


@opaque
class Movements(Starting):
    """broadcast, all_gather, gather, scatter, all_to_all, barrier, send and recv in all their forms."""

    def broadcast(self, tensors: Tensors, opts: object = None, timeout: object = None) -> dist.Work:
        """Give every rank the root's tensor, in place."""
        try:
            tensor = checks.single(tensors, "broadcast")
            if modes() or (tensor.__class__ not in USUAL and handled(tensor)):
                return self._by_dispatcher("broadcast_", tensors, opts)
            if not tensor.is_cpu and self._elsewhere(tensor.device, tensor):
                return self._on_accelerator("broadcast", tensor, tensors, opts)
            root = checks.root_of(opts, self._size)
            if self._blocks(opts) and self._group.broadcast_tensor(tensor, root):
                return DONE
            memory = plain(tensor, self._stay([tensor]))
            copies = [(tensor, memory)] if memory is not tensor and root != self._rank else []
            return self._start(_in_place("broadcast", memory, tensor, root=root), opts, [tensor], copies, [memory])
        except Exception as error:
            self.refuse("broadcast", error)
            raise

    def broadcast_encoded(self, tensor: Tensor, root: int, codec: int) -> dist.Work:
        """Start to give every rank the root's dense tensor, in place, encoded between machines.

        A tensor of a device, for which `encodes_on` must hold, is contiguous. codec: a number in the engine's CODECS
        that takes the dtype. All ranks, the root too, end with the same bits.
        """
        memory = plain(tensor, stays=not tensor.is_cpu)
        copies = [(tensor, memory)] if memory is not tensor else []
        call = _in_place("broadcast", memory, tensor, root=root, codec=codec)
        return self._start(call, None, [tensor], copies, [memory])

    def all_gather_single(self, output: Tensor, input: Tensor, opts: object = None) -> dist.Work:
        """Put the ranks' `input`s one after the other into `output`, which has size times as many elements."""
        try:
            if modes() or (input.__class__ not in USUAL and handled(input)):
                return self._by_dispatcher("_allgather_base_", output, input, opts)
            if self._blocks(opts) and self._group.all_gather_tensor(output, input):
                return DONE
            if not output.is_cpu and self._elsewhere(output.device, output):
                return self._on_accelerator("_allgather_base", output, output, input, opts)
            checks.alike([output, input], "all_gather")
            checks.numel(output, input.numel() * self._size, "the output of all_gather")
            stays = self._stay([output, input])
            copies: Copies = []
            source, target = plain(input, stays), plain_output(output, copies, stays)
            return self._start(_gathering(source, target, input), opts, [output], copies, [source, target])
        except Exception as error:
            self.refuse("all_gather", error)
            raise

    _allgather_base = all_gather_single

    def all_gather_encoded(self, output: Tensor, input: Tensor, codec: int) -> dist.Work:
        """Start to put the ranks' contiguous tensors into the contiguous `output`, encoded between machines.

        They are on a device for which `encodes_on` holds. codec: a number in the engine's CODECS that takes the dtype;
        0 for none. All ranks end with the same bits in `output`, this rank's own part included.
        """
        return self._start(_gathering(input, output, input, codec=codec), None, [output], [], [input, output])

    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: object = None
    ) -> dist.Work:
        """Do several `all_gather_single` as one work."""
        pairs = zip(outputs, inputs, strict=True)
        return self._together([self.all_gather_single(output, input, opts) for output, input in pairs])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather(self, outputs: Rows, inputs: Tensors, opts: object = None) -> dist.Work:
        """Put rank i's input into the i-th of the outputs."""
        try:
            source, targets = checks.single(inputs, "all_gather"), checks.row(outputs, "all_gather")
            if modes() or (source.__class__ not in USUAL and handled(source)):
                return self._by_dispatcher("allgather_", outputs, inputs, opts)
            if not source.is_cpu and self._elsewhere(source.device):
                return self._on_accelerator("allgather", source, outputs, inputs, opts)
            checks.one_per_rank(targets, self._size, "all_gather")
            checks.alike([source, *targets], "all_gather")
            checks.numel(targets[self._rank], source.numel(), "this rank's output of all_gather")
            stays = self._stay([source, *targets])
            copies: Copies = []
            memory = plain(source, stays)
            places = [plain_output(target, copies, stays) for target in targets]
            if not stays and adjacent(places):
                call = _gathering(memory, places[0], source)
            else:
                receives = [span(place) for place in places]
                call = _exchange("all_gather", [span(memory)] * self._size, receives, source)
            return self._start(call, opts, targets, copies, [memory, *places])
        except Exception as error:
            self.refuse("all_gather", error)
            raise

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: object = None) -> dist.Work:
        """Do several `allgather` as one work; `outputs[i][j]` takes the j-th input of rank i."""
        rows = [[tensors[index] for tensors in outputs] for index in range(len(inputs))]
        pairs = zip(rows, inputs, strict=True)
        return self._together([self.allgather([row], [input], opts) for row, input in pairs])

    def gather(self, outputs: Rows, inputs: Tensors, opts: object = None, timeout: object = None) -> dist.Work:
        """Put rank i's input into the i-th of the root's outputs; other ranks give none."""
        try:
            source, targets = checks.single(inputs, "gather"), checks.row(outputs, "gather")
            if modes() or (source.__class__ not in USUAL and handled(source)):
                return self._by_dispatcher("gather_", outputs, inputs, opts)
            if not source.is_cpu and self._elsewhere(source.device):
                return self._on_accelerator("gather", source, outputs, inputs, opts)
            root = checks.root_of(opts, self._size)
            stays = self._stay([source, *targets])
            copies: Copies = []
            memory = plain(source, stays)
            sends, receives = [NOTHING] * self._size, [NOTHING] * self._size
            sends[root] = span(memory)
            places: list[Tensor] = []
            if root == self._rank:
                checks.one_per_rank(targets, self._size, "gather")
                checks.alike([source, *targets], "gather")
                checks.numel(targets[root], source.numel(), "the root's own output of gather")
                places = [plain_output(target, copies, stays) for target in targets]
                receives = [span(place) for place in places]
            call = _exchange("gather", sends, receives, source, root)
            return self._start(call, opts, targets, copies, [memory, *places])
        except Exception as error:
            self.refuse("gather", error)
            raise

    def scatter(self, outputs: Tensors, inputs: Rows, opts: object = None, timeout: object = None) -> dist.Work:
        """Give the i-th of the root's inputs to rank i's output; other ranks give none."""
        try:
            target, sources = checks.single(outputs, "scatter"), checks.row(inputs, "scatter")
            if modes() or (target.__class__ not in USUAL and handled(target)):
                return self._by_dispatcher("scatter_", outputs, inputs, opts)
            if not target.is_cpu and self._elsewhere(target.device):
                return self._on_accelerator("scatter", target, outputs, inputs, opts)
            root = checks.root_of(opts, self._size)
            stays = self._stay([target, *sources])
            copies: Copies = []
            place = plain_output(target, copies, stays)
            sends, receives = [NOTHING] * self._size, [NOTHING] * self._size
            receives[root] = span(place)
            memory: list[Tensor] = []
            if root == self._rank:
                checks.one_per_rank(sources, self._size, "scatter")
                checks.alike([target, *sources], "scatter")
                checks.numel(sources[root], target.numel(), "the root's own input of scatter")
                memory = [plain(source, stays) for source in sources]
                sends = [span(source) for source in memory]
            call = _exchange("scatter", sends, receives, target, root)
            return self._start(call, opts, [target], copies, [place, *memory])
        except Exception as error:
            self.refuse("scatter", error)
            raise

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: object = None) -> dist.Work:
        """Send the i-th input to rank i, and receive rank i's tensor into the i-th output."""
        try:
            for tensors in (outputs, inputs):
                checks.one_per_rank(tensors, self._size, "all_to_all")
            if modes() or (inputs[0].__class__ not in USUAL and handled(inputs[0])):
                return self._by_dispatcher("alltoall_", outputs, inputs, opts)
            if not outputs[0].is_cpu and self._elsewhere(outputs[0].device):
                return self._on_accelerator("alltoall", outputs[0], outputs, inputs, opts)
            checks.alike([*outputs, *inputs], "all_to_all")
            checks.numel(outputs[self._rank], inputs[self._rank].numel(), "this rank's output for itself in all_to_all")
            stays = self._stay([*outputs, *inputs])
            copies: Copies = []
            memory = [plain(tensor, stays) for tensor in inputs]
            places = [plain_output(tensor, copies, stays) for tensor in outputs]
            sends, receives = [span(tensor) for tensor in memory], [span(place) for place in places]
            call = _exchange("all_to_all", sends, receives, inputs[0])
            return self._start(call, opts, outputs, copies, [*memory, *places])
        except Exception as error:
            self.refuse("all_to_all", error)
            raise

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: object = None,
    ) -> dist.Work:
        """Send block i of `input` to rank i, and receive rank i's block as block i of `output`.

        The splits are rows of each block; all blocks are equal where they are empty.
        """
        try:
            if modes() or (input.__class__ not in USUAL and handled(input)):
                return self._by_dispatcher("alltoall_base_", output, input, (output_splits, input_splits, opts))
            equal = not output_splits and not input_splits
            if equal and self._blocks(opts) and self._group.all_to_all_tensor(output, input):
                return DONE
            if not output.is_cpu and self._elsewhere(output.device):
                return self._on_accelerator("alltoall_base", output, output, input, output_splits, input_splits, opts)
            checks.alike([output, input], "all_to_all")
            stays = self._stay([output, input])
            copies: Copies = []
            memory, place = plain(input, stays), plain_output(output, copies, stays)
            sends = slices(memory, checks.splits(input_splits, input, self._size, "input of all_to_all"))
            receives = slices(place, checks.splits(output_splits, output, self._size, "output of all_to_all"))
            call = _exchange("all_to_all", sends, receives, input)
            return self._start(call, opts, [output], copies, [memory, place])
        except Exception as error:
            self.refuse("all_to_all", error)
            raise

    alltoall_base = all_to_all_single

    def barrier(self, opts: object = None, timeout: timedelta | None = None) -> dist.Work:
        """Wait until every rank has called it, `timeout` at most where that is given."""
        if modes():
            return self._by_dispatcher("barrier", torch.empty(0), opts)
        device = getattr(opts, "device", None)
        if (
            device is not None
            and device.type != "cpu"
            and getattr(opts, "device_ids", None)
            and self._elsewhere(device)
        ):
            return self._hand_over("barrier", device, opts)
        work = self._start(_BARRIER, opts, [], [])
        if timeout is not None:
            work.wait(timeout)
        return work

    def monitored_barrier(self, timeout: object = None, wait_all_ranks: bool = False) -> None:
        """Do a barrier; the error of every operation names the missing ranks, so there is nothing to add."""
        limit = timeout if isinstance(timeout, timedelta) else checks.timeout_of(timeout)
        self.barrier().wait(limit or timedelta(0))

    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> dist.Work:
        """Send a tensor to rank `peer`, which must receive the same dtype and count with the same tag."""
        tensor = checks.single(tensors, "send")
        if modes() or (tensor.__class__ not in USUAL and handled(tensor)):
            return self._by_dispatcher("send", tensors, (peer, tag))
        if not tensor.is_cpu and self._message_elsewhere(tensor.device):
            return self._on_accelerator("send", tensor, tensors, peer, tag)
        to = checks.root_of(peer, self._size)
        if not callbacks.depth and (sent := self._group.send_tensor(tensor, to, tag, False)) is not False:
            return self._in_window(DONE if sent is True else self._message(sent, tensor))
        memory = plain(tensor)
        return self._start(_in_place("send", memory, tensor, peer=to, tag=tag), None, [tensor], [], [memory])

    def recv(self, tensors: Tensors, peer: int, tag: int = 0) -> dist.Work:
        """Receive a tensor from rank `peer`."""
        return self._receive(tensors, checks.root_of(peer, self._size), tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> dist.Work:
        """Receive a tensor from any rank; `source_rank` of the work says from which one it came."""
        return self._receive(tensors, ANY_SOURCE, tag)

    def _receive(self, tensors: Tensors, peer: int, tag: int) -> dist.Work:
        tensor = checks.single(tensors, "recv")
        if modes() or (tensor.__class__ not in USUAL and handled(tensor)):
            source = (tag,) if peer == ANY_SOURCE else (peer, tag)
            return self._by_dispatcher("recv_any_source_" if peer == ANY_SOURCE else "recv_", tensors, source)
        if not tensor.is_cpu and self._message_elsewhere(tensor.device):
            return self._on_accelerator("recv", tensor, tensors, peer, tag)
        if not callbacks.depth and (found := self._group.recv_tensor(tensor, peer, tag, False)) is not None:
            work = ReceivedWork(tensor, found) if isinstance(found, int) else self._message(found, tensor)
            return self._in_window(work)
        copies: Copies = []
        place = plain_output(tensor, copies)
        return self._start(_in_place("recv", place, tensor, peer=peer, tag=tag), None, [tensor], copies, [place])


def _in_place(
    kind: str, memory: Tensor, tensor: Tensor, *, root: int = -1, codec: int = -1, peer: int = -1, tag: int = 0
) -> CollectiveCall:
    """A call on `memory`, which is that of the caller's `tensor` or a copy of it."""
    address, count = span(memory)
    code = code_of(tensor)
    return CollectiveCall(kind, target=address, count=count, dtype=code, root=root, codec=codec, peer=peer, tag=tag)


def _gathering(source: Tensor, target: Tensor, tensor: Tensor, codec: int = -1) -> CollectiveCall:
    """An all_gather into equal blocks. tensor: what the caller brings, of which `source` is the memory."""
    address, count = span(source)
    code = code_of(tensor)
    return CollectiveCall("all_gather", source=address, target=target.data_ptr(), count=count, dtype=code, codec=codec)


def _exchange(
    kind: str, sends: Sequence[Span], receives: Sequence[Span], tensor: Tensor, root: int = -1
) -> CollectiveCall:
    return CollectiveCall(kind, dtype=code_of(tensor), root=root, sends=sends, receives=receives)
