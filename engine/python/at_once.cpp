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
std::size_t bytes_of(const Array& array) {
  return array.count() * size_of(array.dtype());
}

template <typename Array>
bool fits(const Array& whole, const Array& part, std::size_t parts) {
  return whole && part && unmarked(whole.dtype()) == unmarked(part.dtype()) && whole.count() == part.count() * parts;
}

template <typename Array>
std::vector<Buffer> equal_blocks(const Array& whole, std::size_t blocks) {
  const std::size_t count = whole.count() / blocks;
  std::vector<Buffer> result;
  result.reserve(blocks);
  for (std::size_t i = 0; i < blocks; ++i) result.push_back({whole.data() + i * count * size_of(whole.dtype()), count});
  return result;
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
    look_before(self, bytes_of(array));
    without_gil(self, [&] {
      return all_reduce(*self.engine, *self.group, array.data(), array.count(), array.dtype(), op_of(op), factor,
                        Mode::blocking);
    });
    return true;
  });
  def("broadcast", [](PyGroup& self, nb::handle object, int root) {
    const Array array(object, true);
    if (!array) return false;
    without_gil(self, [&] {
      return broadcast(*self.engine, *self.group, array.data(), array.count(), array.dtype(), root, Mode::blocking);
    });
    return true;
  });
  def("reduce", [](PyGroup& self, nb::handle object, int op, double factor, int root) {
    const Array array(object, self.group->rank == root);
    if (!array) return false;
    without_gil(self, [&] {
      return reduce(*self.engine, *self.group, array.data(), array.count(), array.dtype(), op_of(op), factor, root,
                    Mode::blocking);
    });
    return true;
  });
  def("all_gather", [](PyGroup& self, nb::handle output, nb::handle input) {
    const Array to(output, true);
    const Array from(input, false);
    if (!fits(to, from, ranks(self))) return false;
    look_before(self, bytes_of(to));
    without_gil(self, [&] {
      return all_gather(*self.engine, *self.group, from.data(), to.data(), from.count(), from.dtype(), Mode::blocking);
    });
    return true;
  });
  def("reduce_scatter", [](PyGroup& self, nb::handle output, nb::handle input, int op, double factor) {
    const Array to(output, true);
    const Array from(input, false);
    if (!fits(from, to, ranks(self))) return false;
    look_before(self, bytes_of(from));
    without_gil(self, [&] {
      return reduce_scatter(*self.engine, *self.group, from.data(), to.data(), to.count(), to.dtype(), op_of(op),
                            factor, Mode::blocking);
    });
    return true;
  });
  def("all_to_all", [](PyGroup& self, nb::handle output, nb::handle input) {
    const Array to(output, true);
    const Array from(input, false);
    if (!fits(to, from, 1) || !to.divides_by(ranks(self)) || !from.divides_by(ranks(self))) return false;
    const auto sends = equal_blocks(from, ranks(self));
    const auto recvs = equal_blocks(to, ranks(self));
    without_gil(self, [&] {
      return exchange(*self.engine, *self.group, Collective::all_to_all, sends, recvs, to.dtype(), -1, Mode::blocking);
    });
    return true;
  });
  def("send", [](PyGroup& self, nb::handle object, int peer, int tag, bool waits) -> nb::object {
    const Array array(object, false);
    if (!array) return nb::bool_(false);
    Handle operation = without_gil(self, [&] {
      return send(*self.engine, *self.group, array.data(), array.count(), array.dtype(), peer, tag,
                  waits ? Mode::blocking : Mode::async);
    });
    return operation ? give(self, std::move(operation)) : nb::bool_(true);
  });
  def("recv", [](PyGroup& self, nb::handle object, int peer, int tag, bool waits) -> nb::object {
    const Array array(object, true);
    if (!array) return nb::none();
    int sender = -1;
    Handle operation = without_gil(self, [&] {
      Handle started = receive(*self.engine, *self.group, array.data(), array.count(), array.dtype(), peer, tag,
                               waits ? Mode::blocking : Mode::async, waits ? &sender : nullptr);
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
    without_gil(self, [&] {
      send_and_receive(*self.engine, *self.group, {out.data(), out.count()}, out.dtype(), dest, {in.data(), in.count()},
                       in.dtype(), source, tag);
    });
    return true;
  });
}

}  // namespace paceline
