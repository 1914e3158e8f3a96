// Groups as communicators of MPI, for the library in engine/mpi, which JAX loads.
#include <algorithm>

#include "mpi/communicator.hpp"
#include "progress/collectives.hpp"
#include "python/bindings.hpp"

namespace paceline {

using namespace nb::literals;

namespace {

// A group that could not be made.
class FailedCommunicator final : public mpi::Communicator {
 public:
  FailedCommunicator(std::string why, int size) : why_(std::move(why)), size_(size) {}

  int rank() const override { return 0; }
  int size() const override { return size_; }
  std::string all_reduce(const std::byte*, std::byte*, std::size_t, DType, Op) override { return why_; }
  std::string all_gather(const std::byte*, std::byte*, std::size_t) override { return why_; }
  std::string reduce_scatter(const std::byte*, std::byte*, std::size_t, DType, Op) override { return why_; }
  Wait send(const std::byte*, std::size_t, int, int) override {
    return [this] { return why_; };
  }
  Wait receive(std::byte*, std::size_t, int, int) override {
    return [this] { return why_; };
  }
  Communicator* split(int, int) override { return this; }

 private:
  const std::string why_;
  const int size_;
};

// XLA calls these functions in threads of its own, or in Python's while that has given up the GIL.
class GroupCommunicator final : public mpi::Communicator {
 public:
  // `group` is a PyGroup. `divide(color, key)` returns another one.
  GroupCommunicator(nb::object group, nb::object divide)
      : object_(std::move(group)), divide_(std::move(divide)), self_(*nb::inst_ptr<PyGroup>(object_)) {}

  int rank() const override { return self_.group->rank; }
  int size() const override { return self_.group->size(); }

  std::string all_reduce(const std::byte* source, std::byte* to, std::size_t count, DType dtype, Op op) override {
    return run({.collective = Collective::all_reduce,
                .source = source,
                .target = to,
                .count = count,
                .dtype = dtype,
                .op = op});
  }

  std::string all_gather(const std::byte* source, std::byte* to, std::size_t bytes) override {
    return run(gather_bytes(source, to, bytes));
  }

  std::string reduce_scatter(const std::byte* source, std::byte* to, std::size_t count, DType dtype, Op op) override {
    return run({.collective = Collective::reduce_scatter,
                .source = source,
                .target = to,
                .count = count,
                .dtype = dtype,
                .op = op});
  }

  Wait send(const std::byte* data, std::size_t bytes, int peer, int tag) override {
    return start({.collective = Collective::send, .source = data, .count = bytes, .peer = peer, .tag = tag});
  }

  Wait receive(std::byte* data, std::size_t bytes, int peer, int tag) override {
    return start({.collective = Collective::recv, .target = data, .count = bytes, .peer = peer, .tag = tag});
  }

  Communicator* split(int color, int key) override {
    const WithGil gil;
    try {
      return new GroupCommunicator(divide_(color, key), divide_);
    } catch (nb::python_error& error) {
      return new FailedCommunicator(nb::cast<std::string>(nb::str(error.value())), size());
    }
  }

 private:
  // Returns why the call failed, or nothing.
  std::string run(const CollectiveCall& call) {
    return told([&] {
      look_before(call);
      paceline::start(*self_.engine, *self_.group, call, Mode::blocking);
    });
  }

  Wait start(const CollectiveCall& message) {
    Handle operation;
    const std::string error =
        told([&] { operation = paceline::start(*self_.engine, *self_.group, message, Mode::async); });
    if (!error.empty()) return [error] { return error; };
    if (!operation) return [] { return std::string(); };
    return
        [this, operation] { return told([&] { self_.engine->wait(*operation, std::chrono::duration<double>(-1)); }); };
  }

  template <typename Work>
  std::string told(Work&& work) {
    try {
      work();
      return {};
    } catch (const Failure& failure) {
      tell(failure);
      return failure.what();
    }
  }

  void look_before(const CollectiveCall& call) {
    if (!stops_before(self_, call)) return;
    const WithGil gil;
    try {
      paceline::look_before(self_, call);
    } catch (nb::python_error& error) {
      throw Failure(ErrorKind::aborted, nb::cast<std::string>(nb::str(error.value())));
    }
  }

  // Lets Python hear of a failure, as where a call of Python's fails.
  void tell(const Failure& failure) {
    const WithGil gil;
    const bool interrupted = PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;  // a signal handler has raised
    PyErr_Clear();
    try {
      raise(failure, self_.failed);
    } catch (nb::python_error&) {
    }
    if (interrupted) PyErr_SetInterrupt();
  }

  nb::object object_;
  nb::object divide_;
  PyGroup& self_;
};

}  // namespace

void bind_mpi(nb::module_& m) {
  m.def(
      "communicator",
      [](nb::object group, nb::object divide) {
        nb::cast<PyGroup&>(group);  // raises unless it is one
        mpi::Communicator* made = new GroupCommunicator(std::move(group), std::move(divide));
        return reinterpret_cast<Address>(made);
      },
      "group"_a, "divide"_a);
}

}  // namespace paceline
