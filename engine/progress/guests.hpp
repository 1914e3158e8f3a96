// The coordinators that take part in the loop, and the CPU time that coordination costs.
#pragma once

#include <cstdint>
#include <vector>

#include "progress/cpu_meter.hpp"
#include "progress/loop_host.hpp"

namespace paceline {

class Guests {
 public:
  bool empty() const { return guests_.empty(); }
  void admit(LoopGuest& guest) { guests_.push_back(&guest); }
  void dismiss(LoopGuest& guest) { std::erase(guests_, &guest); }
  // The engine closes.
  void send_away() {
    while (!guests_.empty()) guests_.back()->leave();
  }

  void count_carrying(bool carries) { carrying_ += carries ? 1 : -1; }
  // Whether a guest moves data, which is not coordination.
  bool carry_data() const { return carrying_ > 0; }

  std::uint64_t& cpu_ns() { return cpu_ns_; }
  std::uint64_t cpu_ns() const { return cpu_ns_; }
  // The meter of the thread that is stepping operations; null if no thread is.
  CpuMeter* meter() const { return meter_; }

  // The calling thread, which has this meter, steps operations for as long as this object lives.
  class Stepping {
   public:
    Stepping(Guests& guests, CpuMeter& meter) : guests_(guests) { guests_.meter_ = &meter; }
    ~Stepping() { guests_.meter_ = nullptr; }
    Stepping(const Stepping&) = delete;
    Stepping& operator=(const Stepping&) = delete;

   private:
    Guests& guests_;
  };

 private:
  std::vector<LoopGuest*> guests_;
  int carrying_ = 0;  // guests that move data
  std::uint64_t cpu_ns_ = 0;
  CpuMeter* meter_ = nullptr;
};

}  // namespace paceline
