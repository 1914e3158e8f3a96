// Shows calls to Python, which makes one of them and submits it: nothing can be changed in it.
#include "types/call.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "python/bindings.hpp"

namespace paceline {

using namespace nb::literals;

namespace {

// An address and a number of elements.
using WireElements = std::pair<Address, std::size_t>;

std::vector<Elements> elements_from(const std::vector<WireElements>& wire) {
  std::vector<Elements> all;
  all.reserve(wire.size());
  for (const auto& [address, count] : wire) all.push_back({memory(address), count});
  return all;
}

}  // namespace

void bind_call(nb::module_& m) {
  nb::class_<CollectiveCall>(m, "CollectiveCall")
      .def(
          "__init__",
          [](CollectiveCall* self, std::string_view collective, Address source, Address target, std::size_t count,
             int dtype, int op, double factor, int root, int codec, Address residual,
             const std::vector<WireElements>& sends, const std::vector<WireElements>& receives, int peer, int tag) {
            new (self) CollectiveCall{.collective = collective_of(collective),
                                      .source = memory(source),
                                      .target = memory(target),
                                      .count = count,
                                      .dtype = dtype_of(dtype),
                                      .op = op_of(op),
                                      .factor = factor,
                                      .root = root,
                                      .codec = codec < 0 ? std::nullopt : std::optional(codec_of(codec)),
                                      .residual = memory(residual),
                                      .sends = elements_from(sends),
                                      .receives = elements_from(receives),
                                      .peer = peer,
                                      .tag = tag};
          },
          "collective"_a, "source"_a = 0, "target"_a = 0, "count"_a = 0, "dtype"_a = static_cast<int>(DType::uint8),
          "op"_a = static_cast<int>(Op::sum), "factor"_a = 1.0, "root"_a = -1, "codec"_a = -1, "residual"_a = 0,
          "sends"_a = std::vector<WireElements>{}, "receives"_a = std::vector<WireElements>{}, "peer"_a = -1,
          "tag"_a = 0)
      .def_prop_ro("target", [](const CollectiveCall& self) { return reinterpret_cast<Address>(self.target); })
      .def_ro("count", &CollectiveCall::count);
}

}  // namespace paceline
