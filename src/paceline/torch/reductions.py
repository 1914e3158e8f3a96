"""Collectives that combine numbers."""

from __future__ import annotations

from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor

from paceline._engine import CollectiveCall
from paceline.torch import checks, sparse
from paceline.torch.checks import Reduction, Rows, Tensors
from paceline.torch.dispatched import USUAL, handled, modes
from paceline.torch.freed_memory import Returning
from paceline.torch.opaque import opaque
from paceline.torch.staging import Copies, adjacent, plain, plain_output
from paceline.torch.starting import Starting
from paceline.torch.tables import reducible, reduction
from paceline.torch.work import DONE


@opaque
class Reductions(Starting):
    """all_reduce, reduce and reduce_scatter in all their forms."""

    _returning: Returning

    def allreduce(self, tensors: Tensors, opts: object = None, timeout: object = None) -> dist.Work:
        """Combine a tensor of any shape over all ranks, in place. opts: torch's AllreduceOptions."""
        try:
            tensor = checks.single(tensors, "all_reduce")
            if modes() or (tensor.__class__ not in USUAL and handled(tensor)):
                return self._by_dispatcher("allreduce_", tensors, opts)
            if self._blocks(opts):
                op, factor = reduction(opts.reduceOp)
                if self._group.all_reduce_tensor(tensor, op, factor):
                    return DONE
            if not tensor.is_cpu and self._elsewhere(tensor.device, tensor):
                return self._on_accelerator("allreduce", tensor, tensors, opts)
            reduce_op = checks.reduce_op(opts)
            if self._stay([tensor]):
                return self._hand(_reduction("all_reduce", tensor, tensor, reduce_op), opts, [tensor], [tensor])
            if tensor.is_sparse:
                return sparse.all_reduce(cast(dist.ProcessGroup, self), tensor, reduce_op)
            memory = plain(tensor)
            if memory.nbytes >= Returning.LEAST:
                self._returning.note(memory.data_ptr(), memory.nbytes)
            copies = [(tensor, memory)] if memory is not tensor else []
            return self._start(_reduction("all_reduce", memory, tensor, reduce_op), opts, [tensor], copies, [memory])
        except Exception as error:
            self.refuse("all_reduce", error)
            raise

    def allreduce_encoded(
        self, tensor: Tensor, reduce_op: Reduction, codec: int, residual: Tensor | None = None
    ) -> dist.Work:
        """Start to combine a dense tensor of any shape over all ranks, in place, encoded between machines.

        A tensor of a device, for which `encodes_on` must hold, is contiguous. codec: a number in the engine's CODECS,
        for float32; 0 for none. residual: contiguous float32 on the same device, as many elements.
        """
        memory = plain(tensor, stays=not tensor.is_cpu)
        keep = [memory] if residual is None else [memory, residual]
        copies = [(tensor, memory)] if memory is not tensor else []
        call = _reduction("all_reduce", memory, tensor, reduce_op, codec=codec, residual=residual)
        return self._start(call, None, [tensor], copies, keep)

    def encodes_on(self, device: torch.device) -> bool:
        """Return whether the engine encodes tensors of this device, or, if it is "meta", may do so later."""
        return device.type in ("cpu", "meta") or self._settled(device) is False

    allreduce_sparse = allreduce

    def allreduce_coalesced(self, tensors: list[Tensor], opts: object = None) -> dist.Work:
        """Combine each of several tensors over all ranks, in place, as one work."""
        return self._together([self.allreduce([tensor], opts) for tensor in tensors])

    def reduce(
        self,
        tensors: Tensors,
        opts: object = None,
        op: Reduction | None = None,
        timeout: object = None,
    ) -> dist.Work:
        """Combine a tensor over all ranks into the root's, in place; other ranks' tensors stay as they are."""
        try:
            tensor = checks.single(tensors, "reduce")
            if modes() or (tensor.__class__ not in USUAL and handled(tensor)):
                return self._by_dispatcher("reduce_", tensors, opts)
            if not tensor.is_cpu and self._elsewhere(tensor.device, tensor):
                return self._on_accelerator("reduce", tensor, tensors, opts)
            root = checks.root_of(opts, self._size)
            reduce_op = op if op is not None else getattr(opts, "reduceOp", dist.ReduceOp.SUM)
            if self._blocks(opts) and self._group.reduce_tensor(tensor, *reduction(reduce_op), root):
                return DONE
            memory = plain(tensor, self._stay([tensor]))
            copies = [(tensor, memory)] if memory is not tensor and root == self._rank else []
            call = _reduction("reduce", memory, tensor, reduce_op, root=root)
            return self._start(call, opts, [tensor], copies, [memory])
        except Exception as error:
            self.refuse("reduce", error)
            raise

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: object = None) -> dist.Work:
        """Combine `input` (size blocks of `output`'s elements) over all ranks; block i goes to rank i's `output`."""
        try:
            if modes() or (input.__class__ not in USUAL and handled(input)):
                return self._by_dispatcher("_reduce_scatter_base_", output, input, opts)
            if self._blocks(opts):
                op, factor = reduction(opts.reduceOp)
                if self._group.reduce_scatter_tensor(output, input, op, factor):
                    return DONE
            if not output.is_cpu and self._elsewhere(output.device, input):
                return self._on_accelerator("_reduce_scatter_base", output, output, input, opts)
            checks.alike([output, input], "reduce_scatter")
            checks.numel(input, output.numel() * self._size, "the input of reduce_scatter")
            stays = self._stay([output, input])
            copies: Copies = []
            source, target = plain(input, stays), plain_output(output, copies, stays)
            reduce_op = checks.reduce_op(opts)
            call = _reduction("reduce_scatter", target, output, reduce_op, source=source.data_ptr())
            return self._start(call, opts, [output], copies, [source, target])
        except Exception as error:
            self.refuse("reduce_scatter", error)
            raise

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_encoded(
        self, output: Tensor, input: Tensor, reduce_op: Reduction, codec: int, residual: Tensor | None = None
    ) -> dist.Work:
        """Start to combine the contiguous tensor `input` into the contiguous `output`, encoded between machines.

        They are on a device for which `encodes_on` holds. codec: a number in the engine's CODECS, for float32; 0 for
        none. residual: contiguous float32 there, as many elements as `input` has.
        """
        keep = [input, output] if residual is None else [input, output, residual]
        call = _reduction(
            "reduce_scatter",
            output,
            output,
            reduce_op,
            source=input.data_ptr(),
            codec=codec,
            residual=residual,
        )
        return self._start(call, None, [output], [], keep)

    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: object = None
    ) -> dist.Work:
        """Do several `reduce_scatter_single` as one work."""
        pairs = zip(outputs, inputs, strict=True)
        return self._together([self.reduce_scatter_single(output, input, opts) for output, input in pairs])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter(self, outputs: Tensors, inputs: Rows, opts: object = None, timeout: object = None) -> dist.Work:
        """Combine one tensor for each rank over all ranks; tensor i goes to rank i's output."""
        try:
            output, parts = checks.single(outputs, "reduce_scatter"), checks.row(inputs, "reduce_scatter")
            if modes() or (output.__class__ not in USUAL and handled(output)):
                return self._by_dispatcher("reduce_scatter_", outputs, inputs, opts)
            if not output.is_cpu and self._elsewhere(output.device):
                return self._on_accelerator("reduce_scatter", output, outputs, inputs, opts)
            checks.one_per_rank(parts, self._size, "reduce_scatter")
            checks.alike([output, *parts], "reduce_scatter")
            checks.numel(output, parts[self._rank].numel(), "the output of reduce_scatter")
            uneven = any(part.numel() != output.numel() for part in parts)
            stays = not uneven and self._stay([output, *parts])
            sources = [plain(part, stays) for part in parts]
            if uneven:
                return self._reduce_scatter_uneven(output, sources, opts)
            whole = sources[0] if adjacent(sources) else torch.cat([source.reshape(-1) for source in sources])
            copies: Copies = []
            target = plain_output(output, copies, stays)
            reduce_op = checks.reduce_op(opts)
            call = _reduction("reduce_scatter", target, output, reduce_op, source=whole.data_ptr())
            return self._start(call, opts, [output], copies, [target, whole, *sources])
        except Exception as error:
            self.refuse("reduce_scatter", error)
            raise

    def _reduce_scatter_uneven(self, output: Tensor, sources: list[Tensor], opts: object) -> dist.Work:
        works: list[dist.Work] = []
        for root, source in enumerate(sources):
            scratch = source.clone()
            copies = [(output, scratch.view(output.shape))] if root == self._rank else []
            call = _reduction("reduce", scratch, output, checks.reduce_op(opts), root=root)
            results = [output] if root == self._rank else []
            works.append(self._start(call, opts, results, copies, [scratch]))
        return self._together(works)


def _reduction(
    collective: str,
    memory: Tensor,
    tensor: Tensor,
    reduce_op: Reduction,
    *,
    source: int = 0,
    root: int = -1,
    codec: int = -1,
    residual: Tensor | None = None,
) -> CollectiveCall:
    """A reduction into `memory`, which is that of the caller's `tensor` or a copy of it. source: an address."""
    code = reducible(tensor, reduce_op)
    op, factor = reduction(reduce_op)
    return CollectiveCall(
        collective,
        source=source,
        target=memory.data_ptr(),
        count=memory.numel(),
        dtype=code,
        op=op,
        factor=factor,
        root=root,
        codec=codec,
        residual=0 if residual is None else residual.data_ptr(),
    )
