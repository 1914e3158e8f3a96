// Nearly every call comes this way: it blocks, or is a message, and its memory can be used as it is. These functions do
// nothing, and return false or None, if an array needs a closer look.
#include <string>
#include <vector>

#include "progress/collectives.hpp"
#include "python/bindings.hpp"
#include "python/buffer.hpp"
#include "python/tensor.hpp"

namespace paceline {
namespace {

std::size_t ranks(const PyGroup& self) { return static_cast<std::size_t>(self.group->size()); }

template <typename Array>
bool fits(const Array& whole, const Array& part, std::size_t parts) {
  return whole && part && unmarked(whole.dtype()) == unmarked(part.dtype()) && whole.count() == part.count() * parts;
}

template <typename Array>
std::vector<Elements> equal_blocks(const Array& whole, std::size_t blocks) {
  const std::size_t count = whole.count() / blocks;
  std::vector<Elements> result;
  result.reserve(blocks);
  for (std::size_t i = 0; i < blocks; ++i) result.push_back({whole.data() + i * count * size_of(whole.dtype()), count});
  return result;
}

template <typename Array>
CollectiveCall in_place(Collective collective, const Array& array) {
  return {.collective = collective, .target = array.data(), .count = array.count(), .dtype = array.dtype()};
}

template <typename Array>
CollectiveCall between(Collective collective, const Array& source, const Array& target, const Array& block) {
  return {.collective = collective,
          .source = source.data(),
          .target = target.data(),
          .count = block.count(),
          .dtype = block.dtype()};
}

template <typename Array>
CollectiveCall message(Collective collective, const Array& array, int peer, int tag) {
  CollectiveCall call = in_place(collective, array);
  call.peer = peer;
  call.tag = tag;
  return call;
}

bool carry_out(const PyGroup& self, const CollectiveCall& call) {
  look_before(self, call);
  without_gil(self, [&] { return start(*self.engine, *self.group, call, Mode::blocking); });
  return true;
}

// Binds the methods for arrays of one kind, with which their names end.
template <typename Array>
void bind(nb::class_<PyGroup>& group, const std::string& kind) {
  const auto def = [&](const char* collective, auto&& call) {
    group.def((std::string(collective) + "_" + kind).c_str(), call);
  };
  def("all_reduce", [](PyGroup& self, nb::handle object, int op, double factor) {
    const Array array(object, true);
    if (!array) return false;
    CollectiveCall call = in_place(Collective::all_reduce, array);
    call.op = op_of(op);
    call.factor = factor;
    return carry_out(self, call);
  });
  def("broadcast", [](PyGroup& self, nb::handle object, int root) {
    const Array array(object, true);
    if (!array) return false;
    CollectiveCall call = in_place(Collective::broadcast, array);
    call.root = root;
    return carry_out(self, call);
  });
  def("reduce", [](PyGroup& self, nb::handle object, int op, double factor, int root) {
    const Array array(object, self.group->rank == root);
    if (!array) return false;
    CollectiveCall call = in_place(Collective::reduce, array);
    call.op = op_of(op);
    call.factor = factor;
    call.root = root;
    return carry_out(self, call);
  });
  def("all_gather", [](PyGroup& self, nb::handle output, nb::handle input) {
    const Array to(output, true);
    const Array from(input, false);
    if (!fits(to, from, ranks(self))) return false;
    return carry_out(self, between(Collective::all_gather, from, to, from));
  });
  def("reduce_scatter", [](PyGroup& self, nb::handle output, nb::handle input, int op, double factor) {
    const Array to(output, true);
    const Array from(input, false);
    if (!fits(from, to, ranks(self))) return false;
    CollectiveCall call = between(Collective::reduce_scatter, from, to, to);
    call.op = op_of(op);
    call.factor = factor;
    return carry_out(self, call);
  });
  def("all_to_all", [](PyGroup& self, nb::handle output, nb::handle input) {
    const Array to(output, true);
    const Array from(input, false);
    if (!fits(to, from, 1) || !to.divides_by(ranks(self)) || !from.divides_by(ranks(self))) return false;
    return carry_out(self, {.collective = Collective::all_to_all,
                            .dtype = to.dtype(),
                            .sends = equal_blocks(from, ranks(self)),
                            .receives = equal_blocks(to, ranks(self))});
  });
  def("send", [](PyGroup& self, nb::handle object, int peer, int tag, bool waits) -> nb::object {
    const Array array(object, false);
    if (!array) return nb::bool_(false);
    const CollectiveCall call = message(Collective::send, array, peer, tag);
    Handle operation =
        without_gil(self, [&] { return start(*self.engine, *self.group, call, waits ? Mode::blocking : Mode::async); });
    return operation ? give(self, std::move(operation)) : nb::bool_(true);
  });
  def("recv", [](PyGroup& self, nb::handle object, int peer, int tag, bool waits) -> nb::object {
    const Array array(object, true);
    if (!array) return nb::none();
    const CollectiveCall call = message(Collective::recv, array, peer, tag);
    int sender = -1;
    Handle operation = without_gil(self, [&] {
      Handle started =
          receive(*self.engine, *self.group, call, waits ? Mode::blocking : Mode::async, waits ? &sender : nullptr);
      if (started && self.engine->is_over(*started) && !started->error()) sender = started->source();
      return started;
    });
    return sender >= 0 ? nb::object(nb::int_(sender)) : give(self, std::move(operation));
  });
}

}  // namespace

void bind_at_once(nb::class_<PyGroup>& group) {
  bind<PythonBuffer>(group, "array");
  bind<Tensor>(group, "tensor");
  group.def("sendrecv_array", [](PyGroup& self, nb::handle input, int dest, nb::handle output, int source, int tag) {
    const PythonBuffer out(input, false);
    const PythonBuffer in(output, true);
    if (!out || !in) return false;
    const CollectiveCall sent = message(Collective::send, out, dest, tag);
    const CollectiveCall received = message(Collective::recv, in, source, tag);
    without_gil(self, [&] { send_and_receive(*self.engine, *self.group, sent, received); });
    return true;
  });
}

}  // namespace paceline
