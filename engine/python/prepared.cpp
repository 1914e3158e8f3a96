// All-reduces that Python prepares once, and that the library in engine/tensorflow submits again and again without it.
#include "tensorflow/prepared.hpp"

#include <nanobind/stl/string_view.h>

#include <optional>
#include <utility>

#include "coordinator/coordinator.hpp"
#include "python/bindings.hpp"

namespace paceline {

using namespace nb::literals;

namespace {

class PreparedAllReduce final : public tensorflow::Prepared, public std::enable_shared_from_this<PreparedAllReduce> {
 public:
  // failed(call, exception) ends a call whose request has failed, or could not be submitted. keep: what owns the
  // residual.
  PreparedAllReduce(PyCoordinator coordinator, const RequestArguments& arguments, nb::object failed, nb::object keep)
      : self_(std::move(coordinator)),
        name_(arguments.name),
        shape_(arguments.shape),
        arguments_(arguments),
        failed_(std::move(failed)),
        keep_(std::move(keep)) {
    arguments_.name = name_;
    arguments_.shape = shape_;
    arguments_.alone = true;
  }

  // TensorFlow lets go of it in any thread, and also after Python has ended.
  ~PreparedAllReduce() override {
    const bool ended = Py_IsInitialized() == 0;
    std::optional<WithGil> gil;
    if (!ended) gil.emplace();
    for (nb::object* object : {&self_.failed, &failed_, &keep_}) ended ? void(object->release()) : object->reset();
  }

  bool current() const override { return !self_.coordinator->closed(); }

  void start(void* data, void* call, void (*succeeded)(void* call)) override {
    RequestArguments now = arguments_;
    now.call.target = static_cast<std::byte*>(data);
    try {
      self_.coordinator->submit(now, [own = shared_from_this(), call, succeeded](PendingRequest& pending) {
        if (pending.state() == Operation::State::done)
          succeeded(call);
        else
          own->fail(pending, call);
      });
    } catch (const Failure& failure) {
      fail(failure, call);
    }
  }

 private:
  void fail(PendingRequest& pending, void* call) const {
    try {
      self_.engine->wait(pending, std::chrono::duration<double>(-1));
    } catch (const Failure& failure) {
      fail(failure, call);
    }
  }

  void fail(const Failure& failure, void* call) const {
    const WithGil gil;
    try {
      raise(failure, self_.failed, !self_.control->error);
    } catch (nb::python_error& error) {
      end(call, error.value());
    }
  }

  void end(void* call, nb::handle exception) const {
    try {
      failed_(reinterpret_cast<Address>(call), exception);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("paceline: a call that has failed");
    }
  }

  PyCoordinator self_;
  const std::string name_;
  const std::string shape_;
  RequestArguments arguments_;  // without data
  nb::object failed_;
  nb::object keep_;
};

// As Python sees it.
struct PyPrepared {
  std::shared_ptr<tensorflow::Prepared> prepared;
};

}  // namespace

void bind_prepared(nb::module_& m) {
  nb::class_<PyPrepared>(m, "PreparedAllReduce")
      .def(
          "__init__",
          [](PyPrepared* self, const PyCoordinator& coordinator, std::string_view name, const CollectiveCall& call,
             std::string_view shape, double prescale, double postscale, nb::object failed, nb::object keep) {
            const RequestArguments arguments{
                .name = name, .call = call, .shape = shape, .prescale = prescale, .postscale = postscale};
            new (self) PyPrepared{
                std::make_shared<PreparedAllReduce>(coordinator, arguments, std::move(failed), std::move(keep))};
          },
          "coordinator"_a, "name"_a, "call"_a, "shape"_a, "prescale"_a, "postscale"_a, "failed"_a,
          "keep"_a = nb::none())
      .def_prop_ro("address", [](const PyPrepared& self) { return reinterpret_cast<Address>(&self.prepared); });
}

}  // namespace paceline
