// A link to a rank of the same process, through which its memory is seen. No message goes over it.
#pragma once

#include <cstring>

#include "link/link.hpp"
#include "memory/arena.hpp"

namespace paceline::test {

class Onlooker {
 public:
  virtual void pause(int rank) = 0;  // others may go on before this returns
  virtual bool gone(int rank) const = 0;

 protected:
  ~Onlooker() = default;
};

// What a rank sees of another one.
class Sight final : public Link {
 public:
  Sight(Onlooker& world, int from, int to, const Arena& arena, bool readable)
      : Link(to), world_(world), from_(from), to_(to), arena_(arena), readable_(readable) {}
  std::string_view name() const override { return "sight"; }
  std::size_t eager_limit() const override { return 0; }
  bool readable() const override { return readable_; }
  void post(Message&) override {}
  void control(const Header&, std::string_view) override {}
  bool poll(Inbox&) override { return false; }
  void cancel(Message&) override {}
  void cancel(StreamSink&) override {}
  int read(std::uint64_t address, std::byte* to, std::size_t size) override {
    pause();
    std::memcpy(to, reinterpret_cast<const std::byte*>(address), size);
    pause();
    return 0;
  }
  void grant(const Arrival&, StreamSink&) override {}
  int descriptor() const override { return -1; }
  void on_readable(Inbox&) override {}
  const PeerArena* arena() const override {
    pause();
    return &arena_;
  }
  void wake() override { pause(); }
  bool flush() override { return true; }
  bool lost() const override {
    pause();
    return world_.gone(to_);
  }
  void forget_after_fork() override {}

 private:
  void pause() const { world_.pause(from_); }

  Onlooker& world_;
  const int from_;
  const int to_;
  const PeerArena arena_;
  const bool readable_;
};

}  // namespace paceline::test
