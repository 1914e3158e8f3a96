// Shows the devices of this process, and collectives on their memory, to Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "device/collectives.hpp"
#include "python/bindings.hpp"
#include "python/devices.hpp"
#include "python/tensor.hpp"

namespace paceline {

using namespace nb::literals;

namespace {

struct PyDeviceGroup {
  std::shared_ptr<PyDevices> devices;
  PyGroup group;
  nb::object failed;
  std::shared_ptr<device::DeviceGroup> on_device;
};

struct PyDeviceOperation {
  std::shared_ptr<device::Pending> pending;
  nb::object failed;
};

device::StreamHandle stream_of(Address number) { return reinterpret_cast<device::StreamHandle>(number); }

std::pair<std::string, std::string> told(const device::Choice& choice) {
  return {device::name_of(choice.path), choice.why};
}

// address: of memory of the device; 0: there is none yet, and the device is the one with this ordinal.
void make_group(PyDeviceGroup* self, std::shared_ptr<PyDevices> devices, const PyGroup& group, Address address,
                device::Ordinal ordinal) {
  device::Devices& all = **devices;
  if (const std::string why = all.absent(); !why.empty())
    throw Failure(ErrorKind::invalid, "this array says that its memory is a device's, but " + why);
  if (address != 0) {
    const device::Memory memory = all.pointers().find(address);
    if (!memory.on_device())
      throw Failure(ErrorKind::invalid, std::string("this array says that its memory is a device's, but it is ") +
                                            device::name_of(memory.kind) + " memory of the host");
    ordinal = memory.device;
  }
  auto on_device = without_gil(group, [&] {
    return std::make_shared<device::DeviceGroup>(group.engine, group.group, all.get(ordinal), all.pointers());
  });
  devices->close_with_engine(on_device);
  new (self) PyDeviceGroup{std::move(devices), group, group.failed, std::move(on_device)};
}

device::DeviceGroup& open(const PyDeviceGroup& self) {
  if (self.on_device == nullptr || self.on_device->closed()) throw Failure(ErrorKind::invalid, "this group was closed");
  return *self.on_device;
}

PyDeviceOperation start_call(PyDeviceGroup& self, const CollectiveCall& call, Address stream) {
  auto pending = without_gil(self, [&] { return device::start(open(self), call, stream_of(stream)); });
  return {std::move(pending), self.failed};
}

}  // namespace

void bind_device(nb::module_& m) {
  nb::class_<PyDevices>(m, "Devices")
      .def(
          "__init__",
          [](PyDevices* self, nb::bytes image, std::optional<std::pair<std::size_t, std::size_t>> limits) {
            std::optional<device::Limits> given;
            if (limits) given = device::Limits{.host = limits->first, .one_shot = limits->second};
            new (self) PyDevices(std::string(image.c_str(), image.size()), given);
          },
          "image"_a = nb::bytes("", 0), "limits"_a = nb::none())
      .def(
          "absent", [](PyDevices& self) { return self->absent(); }, Release())
      .def(
          "names", [](PyDevices& self) { return self->names(); }, Release())
      .def("close", &PyDevices::close, Release())
      .def(
          "no_kernels", [](PyDevices& self, int ordinal) { return self->get(ordinal)->no_kernels(); }, "ordinal"_a,
          Release());

  nb::class_<PyDeviceGroup>(m, "DeviceGroup")
      .def("__init__", &make_group, "devices"_a, "group"_a, "address"_a, "ordinal"_a = 0)
      .def("start", &start_call)
      .def_prop_ro("last", [](const PyDeviceGroup& self) { return told(open(self).last()); })
      .def_prop_ro("share_device", [](const PyDeviceGroup& self) { return open(self).share_device(); })
      .def_prop_ro("limits",
                   [](const PyDeviceGroup& self) {
                     const device::Limits& limits = open(self).limits();
                     return std::tuple(limits.host, limits.one_shot, limits.measured);
                   })
      .def("close", [](PyDeviceGroup& self) { self.on_device.reset(); }, Release());

  nb::class_<PyDeviceOperation>(m, "DeviceOperation")
      .def_prop_ro("source", [](const PyDeviceOperation&) { return -1; })
      .def(
          "done", [](const PyDeviceOperation& self) { return self.pending->done(); }, Release())
      .def(
          "order_before",
          [](const PyDeviceOperation& self, Address stream) {
            without_gil(self, [&] { self.pending->order_before(stream_of(stream)); });
          },
          "stream"_a)
      .def(
          "wait",
          [](const PyDeviceOperation& self, double timeout, std::optional<Address> other) {
            const device::StreamHandle stream = other ? stream_of(*other) : self.pending->stream();
            without_gil(self, [&] {
              if (timeout >= 0) self.pending->wait(std::chrono::duration<double>(timeout), stream);
              if (timeout < 0) self.pending->order_before(stream);
            });
          },
          "timeout"_a = -1.0, "stream"_a = nb::none());

  m.def("look_in_capsule", [](nb::handle capsule) -> std::optional<std::tuple<Address, std::size_t, int>> {
    const Tensor tensor(capsule.ptr());
    if (!tensor) return std::nullopt;
    return std::tuple(reinterpret_cast<Address>(tensor.data()), tensor.count(), static_cast<int>(tensor.dtype()));
  });
}

}  // namespace paceline
