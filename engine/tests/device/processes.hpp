// A job whose ranks are processes, each with an engine and a driver of its own.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device/pinned.hpp"
#include "tests/device/calls.hpp"
#include "tests/device/memory.hpp"
#include "tests/world.hpp"

namespace paceline::test {

// Memory in which ranks see what one of them has done, outside of the engine.
class Told {
 public:
  Told()
      : word_(new (::mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Word(0)) {}
  void tell() const { word_->fetch_add(1); }
  void await(int times) const {
    while (word_->load() < times) std::this_thread::yield();
  }

 private:
  using Word = std::atomic<int>;
  Word* word_;
};

// A rank, as its process sees it.
class DeviceRank {
 public:
  DeviceRank(int rank, std::vector<std::shared_ptr<Group>> groups, std::shared_ptr<Engine> engine,
             std::span<const std::byte> image, const std::optional<device::Limits>& limits, const Told& told)
      : rank_(rank), engine_(std::move(engine)), groups_(std::move(groups)), devices_(image, limits), told_(told) {
    CHECK(devices_.absent().empty());
  }

  int rank() const { return rank_; }
  int size() const { return groups_[0]->size(); }
  Engine& engine() { return *engine_; }
  const device::Driver& driver() { return devices_.get(0)->driver(); }
  device::Devices& devices() { return devices_; }
  const std::shared_ptr<Group>& group() { return groups_[0]; }

  // Collective for the first time.
  device::DeviceGroup& on_device() {
    if (on_device_ == nullptr)
      on_device_ = std::make_unique<device::DeviceGroup>(engine_, groups_[0], devices_.get(0), devices_.pointers());
    return *on_device_;
  }
  void leave() { on_device_.reset(); }
  // Returns when all ranks have called it. It is no collective, which one rank may leave and another one then lose.
  void meet() {
    told_.tell();
    told_.await(++meetings_ * size());
  }

 private:
  int rank_;
  std::shared_ptr<Engine> engine_;
  std::vector<std::shared_ptr<Group>> groups_;
  device::Devices devices_;
  std::unique_ptr<device::DeviceGroup> on_device_;
  const Told& told_;
  int meetings_ = 0;
};

struct Job {
  int size = 2;
  int leaves = -1;      // the rank that may end as it likes
  double timeout = 60;  // seconds
  bool kernels = true;
  std::vector<int> machines = {};  // of every rank: others are reached by sockets alone; none: all are on one
  std::optional<device::Limits> limits = device::Limits{};  // none: as measured
  std::vector<int> devices = {};                            // of every rank; none: all share one
  Plans plans = {};                                         // in place of the usual ones
};

namespace job {

// Tells the process at the other end of the socket of a descriptor here, and opens what it tells of.
inline Descriptor swap(int socket, const Descriptor& mine, pid_t& peer) {
  const std::array<int, 2> here{::getpid(), mine.get()};
  std::array<int, 2> there{};
  CHECK(::send(socket, here.data(), sizeof here, 0) == sizeof here);
  CHECK(::recv(socket, there.data(), sizeof there, MSG_WAITALL) == sizeof there);
  peer = there[0];
  const std::string path = "/proc/" + std::to_string(there[0]) + "/fd/" + std::to_string(there[1]);
  Descriptor opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  CHECK(opened);
  // The other process is here too, and keeps its descriptor until both have come so far.
  char done = 0;
  CHECK(::send(socket, &done, 1, 0) == 1 && ::recv(socket, &done, 1, MSG_WAITALL) == 1);
  return opened;
}

}  // namespace job

inline Plans with(Plans usual, const Plans& others) {
  for (const auto& [collective, plans] : others) usual[collective] = plans;
  return usual;
}

// Runs `body` in as many processes. All but one that leaves must come to its end. It must be called before this process
// has other threads.
inline void run(const Job& job, const std::function<void(DeviceRank&)>& body) {
  const auto size = static_cast<std::size_t>(job.size);
  const Told told;
  struct Pair {
    std::array<int, 2> sockets;
    std::shared_ptr<const Descriptor> memory;  // each rank maps it: a forked process does not have the mapping
  };
  std::vector<std::vector<Pair>> wires(size, std::vector<Pair>(size));
  const auto apart = [&job](std::size_t a, std::size_t b) {
    return !job.machines.empty() && job.machines[a] != job.machines[b];
  };
  for (std::size_t low = 0; low < size; ++low)
    for (std::size_t high = low + 1; high < size; ++high) {
      Pair& wire = wires[low][high];
      if (apart(low, high)) {
        const auto [one, other] = tcp_pair();
        wire.sockets = {one, other};
        continue;
      }
      CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wire.sockets.data()) == 0);
      wire.memory = std::make_shared<const Descriptor>(create_link_memory());
    }
  const auto name = [](std::size_t rank) { return "rank " + std::to_string(rank); };
  std::vector<pid_t> children;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    CHECK(child >= 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto arena = std::make_shared<Arena>(std::size_t{256} << 20);
    const auto engine = std::make_shared<Engine>(arena, std::chrono::microseconds(5), name(rank));
    std::vector<int> peers(size, -1);
    // What other ranks have of the sockets must close with them, and with nobody else.
    for (std::size_t low = 0; low < size; ++low)
      for (std::size_t high = low + 1; high < size; ++high) {
        if (rank != low) ::close(wires[low][high].sockets[0]);
        if (rank != high) ::close(wires[low][high].sockets[1]);
      }
    for (std::size_t other = 0; other < size; ++other) {
      if (other == rank) continue;
      const int side = rank < other ? 0 : 1;
      const Pair& wire = wires[std::min(rank, other)][std::max(rank, other)];
      const int socket = wire.sockets[static_cast<std::size_t>(side)];
      if (apart(rank, other)) {
        peers[other] = engine->add_tcp_peer(Descriptor(socket), name(other));
        continue;
      }
      pid_t pid = 0;
      const Descriptor theirs = job::swap(socket, Descriptor(::dup(arena->descriptor())), pid);
      ShmPeer reach{Descriptor(socket), map_link_memory(*wire.memory), PeerArena(theirs), side, pid, false};
      peers[other] = engine->add_shm_peer(std::move(reach), name(other));
    }
    auto group = engine->add_group(42, static_cast<int>(rank), peers, std::chrono::duration<double>(job.timeout),
                                   with(plans_for(job.size, false), job.plans));
    if (!job.machines.empty()) engine->set_machines(*group, job.machines);
    std::thread server([engine] { engine->serve(); });
    std::thread notifier([engine] {
      while (!engine->notifications().empty()) {
      }
    });
    if (!job.devices.empty()) choose_device(job.devices[rank]);
    {
      DeviceRank self(static_cast<int>(rank), {std::move(group)}, engine,
                      job.kernels ? kernels() : std::span<const std::byte>(), job.limits, told);
      const device::Current current(self.driver(), self.devices().get(0)->context());
      body(self);
    }
    failure_of([&] { engine->close(); });
    server.join();
    notifier.join();
    std::_Exit(0);
  }
  for (std::size_t low = 0; low < size; ++low)
    for (std::size_t high = low + 1; high < size; ++high)
      for (const int socket : wires[low][high].sockets) ::close(socket);
  for (std::size_t rank = 0; rank < size; ++rank) {
    int status = 0;
    CHECK(::waitpid(children[rank], &status, 0) == children[rank]);
    if (status != 0 && static_cast<int>(rank) != job.leaves)
      std::fprintf(stderr, "rank %zu ended with status %#x\n", rank, static_cast<unsigned>(status));
    if (static_cast<int>(rank) != job.leaves) CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

// The stream's work is over.
inline void finish(DeviceRank& self, device::StreamHandle stream = nullptr) {
  self.driver().check(self.driver().stream_synchronize(stream), "cuStreamSynchronize");
}

// What an all-reduce in place takes.
struct Reduction {
  device::Address data = 0;
  std::size_t count = 0;
  DType dtype = DType::uint8;
  Op op = Op::sum;
  double factor = 1;
  device::StreamHandle stream = nullptr;
};

inline std::shared_ptr<device::Pending> all_reduce(DeviceRank& self, const Reduction& what) {
  return device::all_reduce(self.on_device(), what.data, what.count, what.dtype, what.op, what.factor, what.stream);
}

// Values in memory of the device, which is given back with the process.
template <typename T>
class DeviceValues {
 public:
  DeviceValues(DeviceRank& self, std::size_t count, device::Kind kind = device::Kind::device)
      : self_(self),
        address_(allocate(self.driver(), std::max<std::size_t>(1, count) * sizeof(T), kind)),
        count_(count) {}

  device::Address address() const { return address_; }
  std::size_t count() const { return count_; }
  Reduction call(DType dtype, Op op = Op::sum, device::StreamHandle stream = nullptr) const {
    return {.data = address_, .count = count_, .dtype = dtype, .op = op, .factor = 1, .stream = stream};
  }

  void put(const std::vector<T>& values) const {
    put_on(nullptr, values);
    finish(self_);
  }
  // The values stay where they are until the stream has come so far.
  void put_on(device::StreamHandle stream, const std::vector<T>& values) const {
    const auto& driver = self_.driver();
    driver.check(driver.copy_to_device(address_, values.data(), count_ * sizeof(T), stream), "cuMemcpyHtoDAsync");
  }
  void fill(T value) const { put(std::vector<T>(count_, value)); }
  std::vector<T> get() const {
    std::vector<T> values(count_);
    const auto& driver = self_.driver();
    driver.check(driver.copy_to_host(values.data(), address_, count_ * sizeof(T), nullptr), "cuMemcpyDtoHAsync");
    finish(self_);
    return values;
  }

 private:
  DeviceRank& self_;
  device::Address address_;
  std::size_t count_;
};

// A stream, whose work from then on waits while it is held, as if a kernel ran for long.
class TestStream {
 public:
  explicit TestStream(DeviceRank& self)
      : self_(self), word_(self.driver(), self.engine().host().arena(), sizeof(Word)) {
    new (word_.data()) Word(0);
    self.driver().check(self.driver().stream_create(&handle_, 0), "cuStreamCreate");
  }
  ~TestStream() {
    release();
    finish(self_, handle_);
    self_.driver().stream_destroy(handle_);
  }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;

  device::StreamHandle get() const { return handle_; }
  void hold() {
    device::Batch batch;
    batch.wait(word_.address_of(word_.data()), 1);
    batch.submit(self_.driver(), handle_);
  }
  void release() { reinterpret_cast<Word*>(word_.data())->store(1); }

 private:
  using Word = std::atomic<std::uint32_t>;

  DeviceRank& self_;
  device::Pinned word_;
  device::StreamHandle handle_ = nullptr;
};

}  // namespace paceline::test
