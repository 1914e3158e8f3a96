#include "device/staging.hpp"

#include <algorithm>

namespace paceline::device {

namespace {

// Returns the call as the engine does it, without memory.
CollectiveCall on_host(const Call& call) {
  return {.collective = call.collective,
          .dtype = call.dtype,
          .op = call.op,
          .factor = call.factor,
          .root = call.root,
          .codec = call.codec};
}

}  // namespace

Staging::Staging(Engine& engine, Group& hosts, const Driver& driver, Control& control, std::size_t slot)
    : engine_(engine),
      hosts_(hosts),
      driver_(driver),
      control_(control),
      slot_(rounded_up(slot, kPage)),
      pinned_(driver, engine.host().arena(), kSlots * (2 * slot_)) {}

Staging::Chunks Staging::plan(const Call& call, std::size_t longest) {
  const std::size_t blocks = call.has_block_for_each() ? static_cast<std::size_t>(hosts_.size()) : 1;
  // Whether or not this rank has a residual: a chunk is the same on all ranks.
  const std::size_t room = call.combines() && call.codec != Codec::none ? slot_ / 2 : slot_;
  const std::size_t elements = std::max<std::size_t>(1, room / size_of(call.dtype) / blocks);
  const auto own = static_cast<std::uint32_t>((longest + elements - 1) / elements);
  const std::uint32_t first = planned_;
  planned_ += own + 1;
  return {.call = call, .elements = elements, .first = first, .end = planned_, .longest = longest};
}

Staging::Chunks Staging::plan(const Call& call, const MachineFirst& plan) {
  Chunks chunks = this->plan(call, call.count);
  const auto pieces = [&hosts = hosts_, like = on_host(call)](const Plan& between, std::size_t elements) {
    CollectiveCall piece = like;
    piece.count = elements;
    return pieces_between(hosts, between, piece);
  };
  chunks.parts = std::make_unique<const MachineParts>(plan, call.count, chunks.elements, pieces);
  return chunks;
}

// One block on both sides is served in place.
std::byte* Staging::output_of(const Chunks& chunks, std::uint32_t chunk) const {
  return input_of(chunk) + (chunks.call.has_block_for_each() ? kSlots * slot_ : 0);
}

// The pieces of one chunk lie as the engine's collective wants them: without gaps where all blocks are as long, and
// where machines come first with gaps for what other ranks have.
std::vector<Staging::Piece> Staging::pieces(const Chunks& chunks, std::uint32_t index, const std::vector<Block>& blocks,
                                            std::byte* memory) const {
  const std::size_t width = size_of(chunks.call.dtype);
  std::vector<Piece> all;
  if (chunks.parts != nullptr) {
    for (const Block& block : blocks)
      for (const auto& [there, here, count] : chunks.parts->in_chunk(hosts_.rank, index))
        all.push_back({block.data + there * width, memory + here * width, count});
    return all;
  }
  const std::size_t begin = index * chunks.elements;
  all.reserve(blocks.size());
  for (const Block& block : blocks) {
    const std::size_t count = std::min(chunks.elements, block.count - std::min(begin, block.count));
    all.push_back({block.data + begin * width, memory, count});
    memory += (chunks.call.uneven ? chunks.elements : count) * width;
  }
  return all;
}

void Staging::copy_here(const std::vector<Piece>& pieces, const Chunks& chunks, StreamHandle stream) const {
  for (const Piece& piece : pieces) {
    const std::size_t bytes = piece.count * size_of(chunks.call.dtype);
    if (bytes > 0) driver_.check(driver_.copy_to_host(piece.here, piece.there, bytes, stream), "cuMemcpyDtoHAsync");
  }
}

void Staging::copy_there(const std::vector<Piece>& pieces, const Chunks& chunks, StreamHandle stream) const {
  for (const Piece& piece : pieces) {
    const std::size_t bytes = piece.count * size_of(chunks.call.dtype);
    if (bytes > 0) driver_.check(driver_.copy_to_device(piece.there, piece.here, bytes, stream), "cuMemcpyHtoDAsync");
  }
}

void Staging::fetch(const Chunks& chunks, std::uint32_t index, StreamHandle stream) {
  const std::uint32_t chunk = chunks.first + index;
  copy_here(pieces(chunks, index, chunks.call.input, input_of(chunk)), chunks, stream);
  copy_here(pieces(chunks, index, chunks.call.residual, residual_of(chunk)), chunks, stream);
  Batch batch;
  batch.write(control_.address_of(control_->here), chunk + 1);
  batch.submit(driver_, stream);
}

void Staging::bring_back(const Chunks& chunks, std::uint32_t index, StreamHandle stream) {
  const std::uint32_t chunk = chunks.first + index;
  Batch batch;
  batch.wait(control_.address_of(control_->served), chunk + 1);
  batch.submit(driver_, stream);
  copy_there(pieces(chunks, index, chunks.call.output, output_of(chunks, chunk)), chunks, stream);
  copy_there(pieces(chunks, index, chunks.call.residual, residual_of(chunk)), chunks, stream);
}

void Staging::hand_over(const Chunks& chunks, StreamHandle stream) {
  for (std::uint32_t index = 0; index < std::min(kSlots, chunks.own()); ++index) fetch(chunks, index, stream);
  for (std::uint32_t index = 0; index < chunks.own(); ++index) {
    bring_back(chunks, index, stream);
    if (index + kSlots < chunks.own()) fetch(chunks, index + kSlots, stream);  // the stream keeps them in order
  }
  Batch batch;
  batch.wait(control_.address_of(control_->served), chunks.end);
  batch.submit(driver_, stream);
}

// Ranks with shorter blocks have nothing in the last chunks of the others.
bool Staging::has_work(const Chunks& chunks) const {
  if (chunks.serving != nullptr) return chunks.serving->over();
  if (chunks.over()) return false;
  return chunks.served >= chunks.own() || reached(control_->here.load(), chunks.first + chunks.served + 1);
}

bool Staging::advance(Chunks& chunks, Error& trouble) {
  bool moved = false;
  while (has_work(chunks)) {
    moved = true;
    if (chunks.serving == nullptr) {
      chunks.serving = serve(chunks);
      continue;
    }
    if (chunks.serving->state() == Operation::State::failed) {
      trouble = chunks.serving->error();
      return true;
    }
    chunks.serving = nullptr;
    ++chunks.served;
    advance_to(control_->served, chunks.first + std::min(chunks.served, chunks.own()));
  }
  if (chunks.over()) advance_to(control_->served, chunks.end);
  return moved;
}

// Starts the engine's collective for the next chunk.
Handle Staging::serve(const Chunks& chunks) const {
  const std::uint32_t chunk = chunks.first + chunks.served;
  std::byte* const in = input_of(chunk);
  std::byte* const out = output_of(chunks, chunk);
  CollectiveCall call = on_host(chunks.call);
  if (chunks.call.uneven) {
    const auto elements = [&](const std::vector<Block>& blocks, std::byte* memory) {
      std::vector<Elements> all;
      for (const Piece& piece : pieces(chunks, chunks.served, blocks, memory)) all.push_back({piece.here, piece.count});
      all.resize(static_cast<std::size_t>(hosts_.size()), all.empty() ? Elements{} : all.front());
      return all;
    };
    call.sends = elements(chunks.call.input, in);
    call.receives = elements(chunks.call.output, out);
    return start(engine_, hosts_, call, Mode::inside);
  }
  call.source = in;
  call.target = out;
  call.count = std::min(chunks.elements, chunks.longest - chunks.served * chunks.elements);
  call.residual = chunks.call.residual.empty() ? nullptr : residual_of(chunk);
  if (chunks.parts == nullptr) return start(engine_, hosts_, call, Mode::inside);
  if (call.op == Op::premul_sum) call.op = Op::sum;
  return start_between(engine_, hosts_, chunks.parts->between(), call, Mode::inside);
}

void Staging::release(const Chunks& chunks) { advance_to(control_->served, chunks.end); }

}  // namespace paceline::device
